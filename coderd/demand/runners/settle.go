package runners

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

const (
	settleBatch = 200
	maxBatches  = 50
	// offlineFor is how long a registered runner may be offline before its workspace is replaced.
	offlineFor = 5 * time.Minute
)

// Settle makes what follows from jobs and from the forge's word so: claims and releases by jobs, and the end of what has
// ended. It is a function of rows, and idempotent. One that can't be settled does not keep the others.
func (s *Service) Settle(ctx context.Context) error {
	q := runnersdb.New(s.Store)
	seen, err := q.BindRunnerJobs(ctx)
	if err != nil {
		return xerrors.Errorf("bind jobs to runners: %w", err)
	}
	if err := s.hasten(ctx, seen); err != nil {
		return xerrors.Errorf("hasten probes: %w", err)
	}
	if _, err := q.CloseRunners(ctx); err != nil {
		return xerrors.Errorf("close runners of deleted workspaces: %w", err)
	}
	if _, err := q.ForgetFiles(ctx, filesKept.Seconds()); err != nil {
		return xerrors.Errorf("forget files of configurations: %w", err)
	}
	for range maxBatches {
		n, err := s.settleSome(ctx)
		if err != nil {
			return err
		}
		if n < settleBatch {
			break
		}
	}
	due, err := q.HastenDrains(ctx)
	if err != nil {
		return xerrors.Errorf("hasten drains: %w", err)
	}
	if due > 0 {
		s.Hints.Wake()
	}
	return nil
}

// settleSome returns how many rows there were.
func (s *Service) settleSome(ctx context.Context) (int, error) {
	rows, err := runnersdb.New(s.Store).RunnersToSettle(ctx, runnersdb.RunnersToSettleParams{
		OfflineS: offlineFor.Seconds(), ForgeJobs: workspaces.ForgeJobs, MaxRunners: settleBatch,
	})
	if err != nil {
		return 0, xerrors.Errorf("find runners to settle: %w", err)
	}
	var failed []error
	for _, row := range rows {
		if err := s.carryOut(ctx, row, decide(row)); err != nil {
			failed = append(failed, xerrors.Errorf("settle runner %s: %w", row.Name, err))
		}
	}
	return len(rows), errors.Join(failed...)
}

// act is what follows for a workspace.
type act int

const (
	stay act = iota
	claim
	release
	drain
)

type decision struct {
	act    act
	reason string
	job    uuid.UUID // that claims
}

// decide says what follows from the rows. A runner takes one job and ends, so that one that had a job has served.
func decide(r runnersdb.RunnersToSettleRow) decision {
	over := ended(r)
	switch r.State {
	case database.WorkspaceStateReady:
		switch {
		case r.Open:
			return decision{claim, "claimed by job " + r.OpenJob, r.OpenID}
		case over != "":
			return decision{act: drain, reason: over}
		case r.Status == database.ForgeRunnerStatusActive:
			return decision{act: claim, reason: "claimed by a job: it is busy at the forge"}
		case r.Status == database.ForgeRunnerStatusOffline:
			return decision{act: drain, reason: "its runner has been offline at the forge for " + offlineFor.String()}
		}
	case database.WorkspaceStateStarting:
		if r.Done && !r.Open {
			return decision{act: drain, reason: over}
		}
	case database.WorkspaceStateClaimed:
		switch {
		case over != "":
			return decision{act: release, reason: over}
		case !r.Open && r.Status == database.ForgeRunnerStatusIdle:
			return decision{act: release, reason: "its runner is idle at the forge again"}
		}
	default:
	}
	return decision{}
}

// ended says why a runner has served; empty: it has not.
func ended(r runnersdb.RunnersToSettleRow) string {
	switch {
	case r.Done && !r.Open:
		return "job " + r.DoneJob + " completed: " + r.Conclusion
	case r.Finished:
		return "its runner has ended"
	case r.Status == database.ForgeRunnerStatusGone:
		return "its runner is gone from the forge"
	}
	return ""
}

// carryOut makes one transition. Whoever was faster was right (I2).
func (s *Service) carryOut(ctx context.Context, r runnersdb.RunnersToSettleRow, d decision) (err error) {
	var moved workspaces.Moved
	done := ""
	switch d.act {
	case stay:
		return nil
	case claim:
		done = "claimed"
		moved, err = s.Writer.ClaimForJob(ctx, r.WorkspaceID, r.Incarnation, d.job, brief(d.reason))
	case release:
		done = "released"
		moved, err = s.Writer.Release(ctx, workspaces.Actor{
			UserID: workspaces.ForgeJobs, Source: s.Replica, Reason: brief(d.reason), Incarnation: r.Incarnation,
		}, r.WorkspaceID)
	case drain:
		done = "drained"
		moved, err = s.Writer.Drain(ctx, s.Store, r.WorkspaceID, r.Incarnation, brief(d.reason))
	}
	if errors.Is(err, workspaces.ErrLost) || errors.Is(err, workspaces.ErrNotClaimed) || errors.Is(err, workspaces.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.metrics.settled.WithLabelValues(done).Inc()
	s.Log.Info(ctx, "settled a runner", slog.F("workspace", r.Name), slog.F("done", done), slog.F("reason", d.reason))
	s.Hints.Nudge(moved.TemplateID)
	if d.act != claim {
		s.Hints.Wake()
	}
	return nil
}
