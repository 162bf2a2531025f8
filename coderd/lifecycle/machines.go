package lifecycle

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// reserve takes an unused machine for the workspace, the one with the lowest id, or finds the one it has (S5). Empty where
// the provider makes what it is asked for. That none is unused is no failure of anybody's.
func (w *Worker) reserve(ctx context.Context, j *work) (string, error) {
	if _, ok := provider.As[provider.Reserver](j.provider); !ok {
		return "", nil
	}
	machine, err := lifecycledb.New(w.Store).ReserveMachine(ctx, lifecycledb.ReserveMachineParams{
		Provider: j.Provider, JobID: j.ID, Attempt: j.Attempt,
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", xerrors.Errorf("no machine of provider %s is unused", j.Provider)
	case err != nil:
		return "", xerrors.Errorf("reserve machine: %w", err)
	}
	return machine, nil
}

// freed is how a machine is left. Proven: nothing of the workspace is left on it, so that it is unused at once. Failed: a
// workspace failed on it, so that others are tried first.
type freed struct {
	proven, failed bool
	why            string // where it is not proven
}

// freeMachine gives a workspace's machine back, if it has one.
func (w *Worker) freeMachine(ctx context.Context, j *work, how freed) error {
	if j.ref.Machine == "" {
		return nil
	}
	_, err := lifecycledb.New(w.Store).GiveBackMachine(ctx, lifecycledb.GiveBackMachineParams{
		Provider: j.Provider, JobID: j.ID, Attempt: j.Attempt, Proven: how.proven, Failed: how.failed,
		Error: text(how.why),
	})
	if err != nil {
		return xerrors.Errorf("give machine back: %w", err)
	}
	return nil
}

// mayExist is false for a workspace that never had a machine, where there must be one to have anything.
func (j *work) mayExist() bool {
	_, reserves := provider.As[provider.Reserver](j.provider)
	return !reserves || j.ref.ProviderID != "" || j.ref.Machine != ""
}
