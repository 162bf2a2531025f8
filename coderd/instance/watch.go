package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdr.dev/slog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

const (
	watchEvery  = 2 * time.Second
	retireEvery = time.Minute
	// watchGap between two looks makes this replica as new: it may have been frozen, and heard nothing meanwhile.
	watchGap = 3 * watchEvery
	// maxRecoveries is how often an agent may fall silent in a ready workspace and come back.
	maxRecoveries = 3
	// crowd is how many silent agents may be so by chance; more, and more than half of all, means that it is the
	// observer who does not hear.
	crowd      = 3
	watchBatch = 100
)

// Run delivers claims, notices silence and retires keys until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var eg errgroup.Group
	eg.Go(func() error { s.run(ctx); return nil })
	eg.Go(func() error { s.watch(ctx); return nil })
	_ = eg.Wait()
}

// watch looks for silent agents until ctx ends.
func (s *Service) watch(ctx context.Context) {
	since := s.Clock.Now("instance", "watch") // when this replica began to watch without a break
	last, retired := since, since
	lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "look for silent agents", Tags: []string{"instance", "watch"}, Every: watchEvery,
		Later: true,
	}.Run(ctx, func(ctx context.Context) error {
		now := s.Clock.Now("instance", "watch")
		if now.Sub(last) > watchGap {
			since = now
		}
		last = now
		err := s.watchOnce(ctx, now.Sub(since))
		if err != nil {
			since = s.Clock.Now("instance", "watch")
			last = since
		}
		if now.Sub(retired) >= retireEvery {
			retired = now
			if err := s.retire(ctx); err != nil && ctx.Err() == nil {
				s.Log.Warn(ctx, "retire signing keys", slog.Error(err))
			}
		}
		return err
	})
}

// watchOnce acts on silence that is longer than this replica has watched for.
func (s *Service) watchOnce(ctx context.Context, watched time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, watchGap)
	defer cancel()
	pulse, err := instancedb.New(s.Store).AgentPulse(ctx)
	if err != nil {
		return xerrors.Errorf("count silent agents: %w", err)
	}
	silent := pulse.SilentReady + pulse.SilentClaimed
	deaf := silent > crowd && 2*silent > pulse.Agents
	s.metrics.observe(pulse, deaf)
	if deaf && !s.deaf { // said once
		s.Log.Error(ctx, "most agents are silent: nothing is done to their workspaces, since it may be this side that does "+
			"not hear them", slog.F("silent", silent), slog.F("agents", pulse.Agents))
	}
	s.deaf = deaf
	if deaf || silent == 0 {
		return nil
	}
	if err := s.alarm(ctx, watched); err != nil {
		return err
	}
	return s.recover(ctx, watched)
}

// alarm tells people of claimed workspaces whose agent is silent, once each.
func (s *Service) alarm(ctx context.Context, watched time.Duration) error {
	rows, err := instancedb.New(s.Store).AlarmSilentClaimed(ctx, watched.Seconds())
	if err != nil {
		return xerrors.Errorf("find silent agents of claimed workspaces: %w", err)
	}
	for _, row := range rows {
		s.metrics.alarms.Inc()
		s.Log.Warn(ctx, "the agent of a claimed workspace is silent; the workspace is left to its owner",
			slog.F("workspace", row.Name), slog.F("silent", seconds(row.SilentS)))
	}
	return nil
}

// recover moves ready workspaces whose agent is silent: ready -> starting, or -> draining at the limit.
func (s *Service) recover(ctx context.Context, watched time.Duration) error {
	rows, err := instancedb.New(s.Store).SilentReady(ctx, instancedb.SilentReadyParams{WatchedS: watched.Seconds(), MaxAgents: watchBatch})
	if err != nil {
		return xerrors.Errorf("find silent agents of ready workspaces: %w", err)
	}
	for _, row := range rows {
		reason := fmt.Sprintf("silent: nothing was heard of its agent for %s", seconds(row.SilentS))
		var moved workspaces.Moved
		if row.Recoveries < maxRecoveries {
			moved, err = s.Writer.Silent(ctx, row.ID, row.Incarnation, reason)
		} else {
			moved, err = s.Writer.Drain(ctx, s.Store, row.ID, row.Incarnation, reason+", again and again")
		}
		if errors.Is(err, workspaces.ErrLost) {
			continue
		}
		if err != nil {
			return xerrors.Errorf("move silent workspace: %w", err)
		}
		s.metrics.recoveries.Inc()
		s.Log.Warn(ctx, "the agent of a ready workspace is silent", slog.F("workspace", row.Name),
			slog.F("silent", seconds(row.SilentS)), slog.F("recoveries", row.Recoveries))
		s.Hints.Wake()
		s.Hints.Nudge(moved.TemplateID)
	}
	return nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}
