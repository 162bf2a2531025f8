package runners

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

// Said is what the inside of a workspace reports of its runner.
type Said string

// What it may say: connected and without a job, at one, or that it has ended.
const (
	SaidIdle     Said = "idle"
	SaidActive   Said = "active"
	SaidFinished Said = "finished"
)

// Report records what a workspace says of its runner. One that has not got its configuration can't be registered: idle and
// active are of no consequence then. ErrNoRunner if it is none, or none any more.
func (s *Service) Report(ctx context.Context, workspaceID uuid.UUID, incarnation int32, said Said) error {
	arg := runnersdb.RunnerSaidParams{WorkspaceID: workspaceID, Incarnation: incarnation, Finished: said == SaidFinished}
	if said != SaidFinished {
		status := database.ForgeRunnerStatus(said)
		arg.Status = &status
	}
	_, err := runnersdb.New(s.Store).RunnerSaid(ctx, arg)
	if database.NoRows(err) {
		return ErrNoRunner
	}
	if err != nil {
		return xerrors.Errorf("record report of runner: %w", err)
	}
	if err := s.hasten(ctx, []uuid.UUID{workspaceID}); err != nil {
		return xerrors.Errorf("hasten probe: %w", err)
	}
	s.SettleSoon()
	return nil
}
