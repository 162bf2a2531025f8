package tunnel

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database/tunneldb"
)

const (
	// lookEvery bounds what a lost hint costs: streams of a claim end within 5 s of its end.
	lookEvery = 3 * time.Second
	// mostSilent is how many looks a tunnel may say nothing before it is asked. Agents ping more often.
	mostSilent = 6
	// atOnce is how many workspaces one hint names: a notification has 8000 bytes at most.
	atOnce = 200
	// farewellTimeout is how long clients may take to hear why their streams end with the replica.
	farewellTimeout = 3 * time.Second
)

// Run ends tunnels with the work that they are for, until ctx ends; then all.
func (s *Service) Run(ctx context.Context) {
	var eg errgroup.Group
	eg.Go(func() error { s.watch(ctx); return nil })
	eg.Go(func() error {
		lease.Loop{
			Clock: s.Clock, Log: s.Log, What: "look after tunnels", Tags: []string{"tunnel", "look"}, Every: lookEvery, Later: true,
		}.Run(ctx, s.lookAtAll)
		return nil
	})
	_ = eg.Wait()
	s.stop(ctx)
}

// Ends is how many claims have ended, as far as this replica has heard.
func (s *Service) Ends() uint64 { return s.ends.Load() }

// Ended says that the claim of a workspace has ended, on this replica, after the commit. It returns at once.
func (s *Service) Ended(workspaceID uuid.UUID) {
	s.ends.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[workspaceID], s.look[workspaceID] = struct{}{}, struct{}{}
	s.ended.Ring()
}

// Heard takes such news from another replica. An empty payload means that any number of them may have been lost.
func (s *Service) Heard(payload string) {
	s.ends.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if payload == "" {
		for id := range s.of {
			s.look[id] = struct{}{}
		}
	}
	for _, text := range strings.Split(payload, ",") {
		if id, err := uuid.Parse(text); err == nil && s.of[id] != nil {
			s.look[id] = struct{}{}
		}
	}
	s.ended.Ring()
}

// watch acts on hints.
func (s *Service) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ended:
		}
		s.mu.Lock()
		look, claims := slices.Collect(maps.Keys(s.look)), slices.Collect(maps.Keys(s.claims))
		clear(s.look)
		clear(s.claims)
		look = slices.DeleteFunc(look, func(id uuid.UUID) bool { return s.of[id] == nil })
		s.mu.Unlock()
		if err := s.endOf(ctx, look); err != nil && ctx.Err() == nil {
			s.Log.Warn(ctx, "look whether tunnels are over", slog.Error(err))
		}
		if err := s.spread(ctx, claims); err != nil && ctx.Err() == nil {
			s.Log.Warn(ctx, "look whether other replicas have tunnels", slog.Error(err))
		}
	}
}

// spread tells the other replicas, where they have tunnels of these workspaces.
func (s *Service) spread(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	elsewhere, err := tunneldb.New(s.Store).TunnelsElsewhere(ctx, tunneldb.TunnelsElsewhereParams{Ids: ids, ReplicaID: s.InstanceID})
	if err != nil {
		return xerrors.Errorf("find tunnels at other replicas: %w", err)
	}
	for some := range slices.Chunk(elsewhere, atOnce) {
		s.Hints.Released(strings.Join(lists.Of(some, uuid.UUID.String), ","))
	}
	return nil
}

func (s *Service) endOf(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	return s.end(ctx, tunneldb.TunnelsToKeepParams{ReplicaID: s.InstanceID, Ids: ids})
}

func (s *Service) lookAtAll(ctx context.Context) error {
	s.askSilent()
	s.dropRelays(ctx)
	if err := s.end(ctx, tunneldb.TunnelsToKeepParams{ReplicaID: s.InstanceID, Every: true, Ids: []uuid.UUID{}}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	if _, err := tunneldb.New(s.Store).SweepTunnels(ctx); err != nil {
		return xerrors.Errorf("sweep tunnels: %w", err)
	}
	return nil
}

// askSilent ends tunnels whose agents say nothing, and do not answer either.
func (s *Service) askSilent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tunnels {
		if t.silent++; t.conn.heard.Swap(false) {
			t.silent = 0
		}
		if t.silent == mostSilent {
			t.silent = 0
			go func() {
				if _, err := t.session.Ping(); err != nil {
					_ = t.session.Close()
				}
			}()
		}
	}
}

// end ends the tunnels whose work has ended. One whose row was lost writes it again. While the database does not answer,
// tunnels stay: nobody is let in without it.
func (s *Service) end(ctx context.Context, about tunneldb.TunnelsToKeepParams) error {
	s.mu.Lock()
	var doubtful []*tunnel
	if about.Every {
		doubtful = slices.Collect(maps.Values(s.tunnels))
	}
	for _, id := range about.Ids {
		doubtful = append(doubtful, s.of[id]...)
	}
	doubtful = slices.DeleteFunc(doubtful, func(t *tunnel) bool { return !t.written }) // its row is about to be written
	s.mu.Unlock()
	if len(doubtful) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	keep, err := tunneldb.New(s.Store.Aside()).TunnelsToKeep(asking, about)
	if err != nil {
		return xerrors.Errorf("look whether tunnels are over: %w", err)
	}
	kept := make(map[uuid.UUID]struct{}, len(keep))
	for _, id := range keep {
		kept[id] = struct{}{}
	}
	for _, t := range doubtful {
		if _, ok := kept[t.id]; ok || t.session.IsClosed() {
			continue
		}
		if err := s.write(ctx, t); err != nil {
			_ = t.session.Close()
		}
	}
	return nil
}

// Drain takes no more tunnels, and asks the agents of those that there are to open one elsewhere. It returns at once.
func (s *Service) Drain(ctx context.Context) {
	s.mu.Lock()
	s.draining = true
	all := slices.Collect(maps.Values(s.tunnels))
	s.mu.Unlock()
	for _, t := range all {
		go s.handOver(context.WithoutCancel(ctx), t)
	}
}

func (s *Service) handOver(ctx context.Context, t *tunnel) {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.id.String()+"/handover", nil)
	if err != nil {
		return
	}
	resp, err := s.Transport(Target{TunnelID: t.id, ReplicaID: s.InstanceID}).RoundTrip(req)
	if err != nil {
		s.Log.Debug(ctx, "ask agent to open another tunnel", slog.Error(err))
		return
	}
	_ = resp.Body.Close()
}

// Hold keeps Run from returning, for a moment, until release: the client of a stream that ends with the replica is told why.
func (s *Service) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return func() {}
	}
	s.held.Add(1)
	return s.held.Done
}

// farewells waits until all clients have been told.
func (s *Service) farewells() {
	told := make(chan struct{})
	go func() { s.held.Wait(); close(told) }()
	timer := s.Clock.NewTimer(farewellTimeout, "tunnel", "farewells")
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	}
}

// stop ends all tunnels and relays, and removes their rows.
func (s *Service) stop(ctx context.Context) {
	s.mu.Lock()
	s.stopped = true
	ids := slices.Collect(maps.Keys(s.tunnels))
	for _, t := range s.tunnels {
		_ = t.session.Close()
	}
	s.mu.Unlock()
	s.relays.close()
	s.farewells()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.forget(ctx, ids...) // the others sweep what is left
}
