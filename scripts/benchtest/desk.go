package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// newID makes ids as the server does.
func newID() uuid.UUID { return workspaces.NewID() }

// claimer claims one workspace of a pool; uuid.Nil is a miss.
type claimer func(ctx context.Context, p pool) (uuid.UUID, error)

// desk is what claims are made at: a claim service on the fleet's store, and the API before it. Nothing refills the
// pools, so that a figure is that of claims alone; group `mixed` has everything running.
type desk struct {
	*fleet
	service *claim.Service
	server  *http.Server
	address string
	nudges  atomic.Int64
	turn    atomic.Int64 // of the pools, which are claimed from one after the other
}

func (f *fleet) open() (*desk, error) {
	d := &desk{fleet: f}
	clock, log, reg := quartz.NewReal(), slog.Make(), prometheus.NewRegistry()
	writer := workspaces.New(f.store, newID, "bench")
	d.service = claim.New(claim.Options{
		Store: f.store, Writer: writer, Clock: clock, Log: log, Registerer: reg, NewID: newID,
		Nudge: func(...uuid.UUID) { d.nudges.Add(1) }, Publish: func(uuid.UUID) {},
	})
	registry := provider.NewRegistry(map[string]provider.Factory{}, database.InTransaction)
	d.server = &http.Server{
		Handler: api.New(api.Options{
			Store: f.store, Auth: auth.NewAuthenticator(f.store, clock), Claims: d.service, Workspaces: writer,
			Templates: &templates.Service{Store: f.store, NewProvider: registry.New}, Providers: registry,
			Instances: instance.New(instance.Options{
				Store: f.store, Writer: writer, Clock: clock, Log: log, Registerer: reg, URL: "http://bench",
				Nudge: func(...uuid.UUID) {}, Wake: func() {}, Hint: func(context.Context) {},
			}),
			Nudge: func(...uuid.UUID) {}, Ready: func(context.Context) []string { return nil },
			Metrics: http.NotFoundHandler(), Clock: clock, Log: log, Version: "bench",
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.address = listener.Addr().String()
	go func() { _ = d.server.Serve(listener) }()
	return d, nil
}

func (d *desk) close() {
	_ = d.server.Close()
	d.service.Close()
	d.drop()
}

// store claims without HTTP.
func (d *desk) store(int) (claimer, func(), error) {
	return func(ctx context.Context, p pool) (uuid.UUID, error) {
		res, err := d.service.Claim(ctx, claim.Request{
			UserID: d.owner, Source: "bench", OrganizationID: auth.DefaultOrganizationID, PresetID: p.preset,
			Mode: database.ClaimModeRequire,
		})
		if err != nil || res.Workspace == nil {
			return uuid.Nil, err
		}
		return res.Workspace.ID, nil
	}, func() {}, nil
}

// overHTTP claims as a client does, each over a connection of its own.
func (d *desk) overHTTP(int) (claimer, func(), error) {
	c, err := dialHTTP(d.address, d.token.Reveal())
	if err != nil {
		return nil, nil, err
	}
	return c.claim, c.close, nil
}

// measure runs clients for a window, which begins a moment after a checkpoint, with plans made, buffers filled and the names
// of all pools looked up: each was claimed from at least twice.
func (d *desk) measure(ctx context.Context, b *bench, connect func(int) (claimer, func(), error), clients int) (sample, error) {
	if err := b.checkpoint(ctx); err != nil {
		return sample{}, err
	}
	for first := true; first || d.turn.Load() < int64(2*len(d.pools)); first = false {
		if _, err := d.run(ctx, b, connect, clients, warmUp); err != nil {
			return sample{}, fmt.Errorf("warm up: %w", err)
		}
	}
	return d.run(ctx, b, connect, clients, b.window())
}

// run is a closed loop: each client claims again when it was answered. A miss ends the window.
func (d *desk) run(
	ctx context.Context, b *bench, connect func(int) (claimer, func(), error), clients int, window time.Duration,
) (sample, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		ids    []uuid.UUID
		failed error
		over   atomic.Bool
	)
	claimers := make([]claimer, clients)
	for i := range claimers {
		c, leave, err := connect(i)
		if err != nil {
			return sample{}, err
		}
		defer leave()
		claimers[i] = c
	}
	log, err := b.wal(ctx)
	if err != nil {
		return sample{}, err
	}
	before, began := b.processor(), time.Now()
	until := began.Add(window)
	for _, claim := range claimers {
		wg.Go(func() {
			mine, got := make([]time.Duration, 0, 10_000), make([]uuid.UUID, 0, 10_000)
			var err error
			for now := time.Now(); now.Before(until) && !over.Load(); {
				var id uuid.UUID
				id, err = claim(ctx, d.pools[int(d.turn.Add(1))%len(d.pools)])
				if err != nil || id == uuid.Nil {
					over.Store(true)
					break
				}
				got = append(got, id)
				end := time.Now()
				mine, now = append(mine, end.Sub(now)), end
			}
			mu.Lock()
			defer mu.Unlock()
			took, ids = append(took, mine...), append(ids, got...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	lasted, spent := time.Since(began), b.processor().since(before)
	if failed != nil {
		return sample{}, failed
	}
	if err := d.distinct(ids); err != nil {
		return sample{}, err
	}
	end, err := b.wal(ctx)
	if err != nil {
		return sample{}, err
	}
	n := time.Duration(len(ids))
	if n == 0 {
		return sample{}, fmt.Errorf("every claim was a miss")
	}
	return sample{
		perSecond: float64(n) / lasted.Seconds(), processor: (spent.here + spent.server) / n, ours: spent.here / n,
		p50: quantile(took, 0.5), p99: quantile(took, 0.99), wal: float64(end-log) / float64(n), lasted: lasted,
	}, nil
}

// distinct checks that none of them was handed out before (I1).
func (d *desk) distinct(ids []uuid.UUID) error {
	for _, id := range ids {
		if d.seen[id] {
			return fmt.Errorf("workspace %s was claimed twice", id)
		}
		d.seen[id] = true
	}
	return nil
}
