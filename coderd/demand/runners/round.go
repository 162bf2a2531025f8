package runners

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

const (
	roundLease = 2 * time.Minute // longer than a round may take, which is
	roundFor   = 90 * time.Second
	maxRounds  = 8  // at once, on one replica
	maxForgot  = 20 // runners left behind, or in quarantine, that are removed in one round
)

// Rounds makes the rounds that are due, side by side, and returns when they have ended.
func (s *Service) Rounds(ctx context.Context) error {
	if err := runnersdb.New(s.Store).EnsureForgeStatus(ctx); err != nil {
		return xerrors.Errorf("ensure status of forges: %w", err)
	}
	due, err := runnersdb.New(s.Store).LeaseRounds(ctx, runnersdb.LeaseRoundsParams{
		Replica: s.Replica, LeaseS: roundLease.Seconds(), Jitter: float64(s.jittered(time.Second)) / float64(time.Second),
		IdleS: s.Pace.Idle.Seconds(), FreshS: s.Pace.Fresh.Seconds(), AwaitedS: s.Pace.Awaited.Seconds(), MaxRounds: maxRounds,
	})
	if err != nil {
		return xerrors.Errorf("lease rounds: %w", err)
	}
	var eg errgroup.Group
	for _, r := range due {
		eg.Go(func() error { s.round(ctx, r); return nil })
	}
	_ = eg.Wait()
	return nil
}

// round asks one entity's forge, and records how it went.
func (s *Service) round(ctx context.Context, r runnersdb.LeaseRoundsRow) {
	bounded, cancel := context.WithTimeout(ctx, roundFor)
	defer cancel()
	client, err := s.Directory.Forge(bounded, r.EntityID)
	if err == nil {
		err = s.ask(bounded, r, client)
	}
	pause := s.heed(ctx, r.EntityID, err)
	if err == nil {
		s.troubles.well(r.EntityID)
	}
	end := runnersdb.EndRoundParams{
		EntityID: r.EntityID, Replica: s.Replica, LeasedUntil: r.LeasedUntil, BackoffS: pause.Seconds(),
	}
	if client != nil {
		rate := client.Rate()
		end.RateLimit, end.RateRemaining = int32(rate.Limit), int32(rate.Remaining)
		if !rate.ResetAt.IsZero() {
			end.RateResetAt = &rate.ResetAt
		}
	}
	var limited *forge.RateLimited
	result := "done"
	switch {
	case ctx.Err() != nil:
		return // the replica stops: the lease ends by itself
	case errors.As(err, &limited):
		result, end.Error, end.WaitUntil = "limited", limited.Error(), &limited.Until
	case err != nil:
		result, end.Error = "failed", brief(err.Error())
	}
	s.metrics.rounds.WithLabelValues(result).Inc()
	if err != nil {
		s.Log.Warn(ctx, "a forge does not answer as it should; nothing that is warm depends on it",
			slog.F("entity_id", r.EntityID), slog.Error(err))
	}
	if err := runnersdb.New(s.Store).EndRound(ctx, end); err != nil && ctx.Err() == nil {
		s.Log.Warn(ctx, "record a round", slog.Error(err))
	}
	s.SettleSoon()
}

// ask lists the runners, then whatever else is asked in a round. What the listing says counts whatever becomes of the rest.
func (s *Service) ask(ctx context.Context, r runnersdb.LeaseRoundsRow, client forge.Forge) error {
	if r.AskedAt == nil {
		return nil // it was just set
	}
	list, err := client.Runners(ctx)
	if err != nil {
		return err //nolint:wrapcheck // it says what it did
	}
	if err := s.listed(ctx, r, list); err != nil {
		return err
	}
	var failed []error
	for _, more := range s.Round {
		failed = append(failed, more(ctx, r.EntityID))
	}
	failed = append(failed, s.removeForgotten(ctx, r, client, list), s.removeQuarantined(ctx, r))
	return errors.Join(failed...)
}

// listed records what a complete listing says.
func (s *Service) listed(ctx context.Context, r runnersdb.LeaseRoundsRow, list []forge.Runner) error {
	arg := runnersdb.RunnersListedParams{EntityID: r.EntityID, BeganAt: *r.AskedAt}
	listed := make(map[string]bool, len(list))
	for _, runner := range list {
		if listed[runner.Name] { // pages that moved while they were read
			continue
		}
		listed[runner.Name] = true
		arg.Names = append(arg.Names, runner.Name)
		arg.Ids = append(arg.Ids, runner.ID)
		arg.Statuses = append(arg.Statuses, string(runner.Status))
	}
	seen, err := runnersdb.New(s.Store).RunnersListed(ctx, arg)
	if err != nil {
		return xerrors.Errorf("record listing of runners: %w", err)
	}
	// The mark comes last: whoever goes by it finds what the listing said.
	err = runnersdb.New(s.Store).RoundListed(ctx, runnersdb.RoundListedParams{EntityID: r.EntityID, BeganAt: *r.AskedAt})
	if err != nil {
		return xerrors.Errorf("record listing of runners: %w", err)
	}
	return s.hasten(ctx, seen)
}

// removeForgotten unregisters what is offline and was a runner of a workspace that is long gone.
func (s *Service) removeForgotten(ctx context.Context, r runnersdb.LeaseRoundsRow, client forge.Forge, list []forge.Runner) error {
	ids := map[string]int64{}
	var names []string
	for _, runner := range list {
		if runner.Status == forge.Offline {
			ids[runner.Name] = runner.ID
			names = append(names, runner.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	forgotten, err := runnersdb.New(s.Store).ForgottenRunners(ctx, runnersdb.ForgottenRunnersParams{
		EntityID: r.EntityID, Names: names, MaxRunners: maxForgot,
	})
	if err != nil {
		return xerrors.Errorf("find runners left behind: %w", err)
	}
	var failed []error
	for _, name := range forgotten {
		if alone, err := s.leftAlone(ctx, r.EntityID); err != nil || alone != nil {
			return errors.Join(append(failed, err)...)
		}
		err := client.RemoveRunner(ctx, ids[name])
		if err != nil && !errors.Is(err, forge.ErrNotFound) && !errors.Is(err, forge.ErrBusy) {
			failed = append(failed, xerrors.Errorf("remove runner left behind: %w", err))
			if ofItself(err) {
				break
			}
			continue // one that can't be removed does not keep the others
		}
		s.Log.Info(ctx, "removed a runner of a workspace that is gone", slog.F("runner", name))
	}
	return errors.Join(failed...)
}

// removeQuarantined unregisters what is kept to be looked at, so that it is given no job. One that has a job is left to it, and
// asked for again in the next round.
func (s *Service) removeQuarantined(ctx context.Context, r runnersdb.LeaseRoundsRow) error {
	kept, err := runnersdb.New(s.Store).QuarantinedRunners(ctx, runnersdb.QuarantinedRunnersParams{EntityID: r.EntityID, MaxRunners: maxForgot})
	if err != nil {
		return xerrors.Errorf("find runners in quarantine: %w", err)
	}
	var failed []error
	for _, it := range kept {
		verdict, err := s.Deregister(ctx, it.WorkspaceID, it.Incarnation)
		if err != nil {
			failed = append(failed, xerrors.Errorf("unregister runner in quarantine: %w", err))
			continue
		}
		if verdict.Done {
			s.Log.Info(ctx, "unregistered a runner that is kept to be looked at", slog.F("runner", it.Name))
		}
	}
	return errors.Join(failed...)
}

const maxError = 1000 // bytes of an error that are kept

// brief makes a text that came from a forge fit for the database.
func brief(text string) string { return database.TextAtMost(text, maxError) }
