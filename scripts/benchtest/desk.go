package main

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// newID makes ids as the server does.
func newID() uuid.UUID { return workspaces.NewID() }

// claimer claims one workspace of a pool; uuid.Nil is a miss.
type claimer func(ctx context.Context, p pool) uuid.UUID

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

func (f *fleet) open() *desk {
	d := &desk{fleet: f}
	clock, log, reg := quartz.NewReal(), slog.Make(), prometheus.NewRegistry()
	writer := workspaces.New(f.store, newID, "bench")
	d.service = claim.New(claim.Options{
		Store: f.store, Writer: writer, Clock: clock, Log: log, Registerer: reg, NewID: newID,
		Hints: hints.Local(hints.Ears{Nudge: func(...uuid.UUID) { d.nudges.Add(1) }}),
	})
	registry := provider.NewRegistry(map[string]provider.Factory{}, database.InTransaction)
	d.server = &http.Server{
		Handler: api.New(api.Options{
			Store: f.store, Auth: auth.NewAuthenticator(f.store, clock), Claims: d.service, Workspaces: writer,
			Templates: &templates.Service{Store: f.store, NewProvider: registry.New}, Providers: registry,
			Instances: instance.New(instance.Options{
				Store: f.store, Writer: writer, Clock: clock, Log: log, Registerer: reg, URL: "http://bench",
				Hints: hints.Local(hints.Ears{}),
			}),
			Hints: hints.Local(hints.Ears{}), Ready: func(context.Context) []string { return nil },
			Metrics: http.NotFoundHandler(), Clock: clock, Log: log, Version: "bench",
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	d.address = listener.Addr().String()
	go func() { _ = d.server.Serve(listener) }()
	return d
}

func (d *desk) close() {
	_ = d.server.Close()
	d.service.Close()
	d.drop()
}

// side is where claims are made.
type side string

const (
	store    side = "store"
	overHTTP side = "http"
)

var sides = []side{store, overHTTP}

// claimer is one client: without HTTP, or as a client of the API, over a connection of its own.
func (d *desk) claimer(at side) (claimer, func()) {
	if at == overHTTP {
		c := dialHTTP(d.address, d.token.Reveal())
		return c.claim, c.close
	}
	return func(ctx context.Context, p pool) uuid.UUID {
		res := get(d.service.Claim(ctx, claim.Request{
			UserID: d.owner, Source: "bench", OrganizationID: auth.DefaultOrganizationID, PresetID: p.preset,
			Mode: database.ClaimModeRequire,
		}))
		if res.Workspace == nil {
			return uuid.Nil
		}
		return res.Workspace.ID
	}, func() {}
}

// measure runs clients for a window, which begins a moment after a checkpoint, with plans made, buffers filled and the names
// of all pools looked up: each was claimed from at least twice. A rate above zero is an open loop of so many claims a second.
func (d *desk) measure(ctx context.Context, b *bench, at side, clients int, rate float64) sample {
	b.checkpoint(ctx)
	for first := true; first || d.turn.Load() < int64(2*len(d.pools)); first = false {
		within("warm up", func() { d.run(ctx, b, at, clients, rate, warmUp) })
	}
	return d.run(ctx, b, at, clients, rate, b.window())
}

func (d *desk) run(ctx context.Context, b *bench, at side, clients int, rate float64, window time.Duration) sample {
	claimers := make([]claimer, clients)
	for i := range claimers {
		claim, leave := d.claimer(at)
		defer leave()
		claimers[i] = claim
	}
	log := b.wal(ctx)
	s := d.claims(ctx, b, claimers, &d.turn, rate, window)
	s.wal = float64(b.wal(ctx)-log) / float64(s.n)
	return s
}

// claims has each client claim from the pools in turn, as loop has it. None may be handed out twice.
func (f *fleet) claims(
	ctx context.Context, b *bench, clients []claimer, turn *atomic.Int64, rate float64, window time.Duration,
) sample {
	ids := make([][]uuid.UUID, len(clients))
	workers := make([]func(), len(clients))
	for i, claim := range clients {
		ids[i] = make([]uuid.UUID, 0, 10_000)
		workers[i] = func() {
			id := claim(ctx, f.pools[int(turn.Add(1))%len(f.pools)])
			if id == uuid.Nil {
				must(errMiss)
			}
			ids[i] = append(ids[i], id)
		}
	}
	s := b.loop(workers, rate, window)
	for _, mine := range ids {
		f.distinct(mine)
	}
	return s
}

// distinct checks that none of them was handed out before (I1).
func (f *fleet) distinct(ids []uuid.UUID) {
	for _, id := range ids {
		if f.seen[id] {
			fail("workspace %s was claimed twice", id)
		}
		f.seen[id] = true
	}
}
