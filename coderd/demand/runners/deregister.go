package runners

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	removeFor = 20 * time.Second // that a forge may take to unregister one
	leastWait = 5 * time.Second  // between askings after a veto, growing to mostWait
	mostWait  = 30 * time.Second
)

// Verdict is whether a workspace may go, as far as its forge is concerned.
type Verdict = provider.Verdict

// Deregister unregisters the runner of a workspace that is to go. A forge that could not be asked, or did not answer as it
// should, is an error: then the workspace must not go.
func (s *Service) Deregister(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (Verdict, error) {
	row, err := s.runnerOf(ctx, workspaceID, incarnation)
	if errors.Is(err, ErrNoRunner) {
		return Verdict{Done: true, Why: "never registered"}, nil
	}
	if err != nil {
		return Verdict{}, err
	}
	wait := min(max(leastWait, time.Duration(row.InStateS*float64(time.Second))/10), mostWait)
	switch {
	case row.RemovedAt != nil:
		return Verdict{Done: true, Why: "unregistered"}, nil
	case row.AbandonedAt != nil:
		return s.removed(ctx, row, "an owner had it go without the forge's word")
	case row.AskedAt == nil:
		return s.removed(ctx, row, "never registered")
	case row.Asking:
		return Verdict{Why: "it is being registered at this moment", Wait: leastWait}, nil
	case row.Job != "" && !row.JobLost:
		return s.veto(ctx, row, "job "+row.Job+" is in progress", wait)
	case waits(row) != nil:
		return s.later(waits(row), *row.RunnersWaitUntil), nil //nolint:nilerr // the verdict says it
	}
	err = s.remove(ctx, row)
	s.heed(ctx, row.EntityID, err)
	if err == nil {
		s.troubles.well(row.EntityID)
	}
	var limited *forge.RateLimited
	switch {
	case errors.As(err, &limited):
		return s.later(limited, limited.Until), nil
	case errors.Is(err, forge.ErrBusy):
		return s.veto(ctx, row, "the forge says a job runs", wait)
	case err != nil:
		return Verdict{}, err
	}
	// Some forges look whether a runner has a job, and remove it then: it may have been given one in between.
	if row, err = s.runnerOf(ctx, workspaceID, incarnation); err != nil {
		return Verdict{}, err
	}
	if row.Job != "" && !row.JobLost {
		return s.veto(ctx, row, "job "+row.Job+" began at that moment", wait)
	}
	return s.removed(ctx, row, "unregistered")
}

// remove asks the forge, by the number that it gave the runner, else by name.
func (s *Service) remove(ctx context.Context, row viewsdb.RunnerOfRow) error {
	ctx, cancel := context.WithTimeout(ctx, removeFor)
	defer cancel()
	client, err := s.Directory.Forge(ctx, row.EntityID)
	if err != nil {
		return ofForge("unregister runner", err)
	}
	if row.RunnerID == nil {
		err = removeNamed(ctx, client, row.Name)
	} else if err = client.RemoveRunner(ctx, *row.RunnerID); errors.Is(err, forge.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return ofForge("unregister runner", err)
	}
	return nil
}

// later is the verdict while a forge is left alone.
func (s *Service) later(why error, until time.Time) Verdict {
	return Verdict{Why: why.Error(), Wait: max(leastWait, until.Sub(s.Clock.Now("runners", "limited")))}
}

func (s *Service) veto(ctx context.Context, row viewsdb.RunnerOfRow, why string, wait time.Duration) (Verdict, error) {
	s.metrics.vetoes.Inc()
	err := runnersdb.New(s.Store).RunnerVetoed(ctx, runnersdb.RunnerVetoedParams{WorkspaceID: row.WorkspaceID, Incarnation: row.Incarnation})
	if err != nil {
		return Verdict{}, xerrors.Errorf("record veto: %w", err)
	}
	return Verdict{Busy: true, Why: "busy: " + why, Wait: wait}, nil
}

func (s *Service) removed(ctx context.Context, row viewsdb.RunnerOfRow, why string) (Verdict, error) {
	err := runnersdb.New(s.Store).RunnerRemoved(ctx, runnersdb.RunnerRemovedParams{WorkspaceID: row.WorkspaceID, Incarnation: row.Incarnation})
	if err != nil {
		return Verdict{}, xerrors.Errorf("record that the runner is unregistered: %w", err)
	}
	return Verdict{Done: true, Why: why}, nil
}

// Abandon has a workspace go without the forge's word on its runner, because an owner says so (P7). It is done, and audited,
// before the deletion itself; one that drains already goes on at once. It returns the workspace's state. ErrBusy: it is
// known to have a job. ErrNoRunner: there is nothing to be asked of a forge.
func (s *Service) Abandon(
	ctx context.Context, by workspaces.Actor, workspaceID uuid.UUID, incarnation int32,
) (database.WorkspaceState, error) {
	state, err := runnersdb.New(s.Store).AbandonRunner(ctx, runnersdb.AbandonRunnerParams{
		WorkspaceID: workspaceID, Incarnation: incarnation, ActorID: by.UserID, Reason: by.Reason, Source: by.Source,
	})
	if err == nil {
		s.Hints.Wake()
		return state, nil
	}
	if !database.NoRows(err) {
		return "", xerrors.Errorf("abandon runner: %w", err)
	}
	row, err := s.runnerOf(ctx, workspaceID, incarnation)
	switch {
	case err != nil:
		return "", err
	case row.RemovedAt != nil:
		return "", ErrNoRunner
	case row.Job != "":
		return "", xerrors.Errorf("runner %s is at job %s: %w", row.Name, row.Job, ErrBusy)
	default:
		return "", xerrors.Errorf("runner %s is active in the forge's last listing: %w", row.Name, ErrBusy)
	}
}
