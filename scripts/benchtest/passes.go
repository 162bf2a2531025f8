package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"cdr.dev/slog"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// passer runs full passes on demand: the real reconciler, without its loop.
type passer struct{ *reconcile.Reconciler }

func (f *fleet) passer(ctx context.Context) passer {
	p := passer{reconcile.New(reconcile.Options{
		Store: f.store, Writer: workspaces.New(f.store, newID, "bench"), Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), Replica: "bench", Tick: time.Hour, Random: rand.Reader, NewID: newID,
	})}
	p.pass(ctx) // writes the status once
	return p
}

// pass runs one and returns how long it took.
func (p passer) pass(ctx context.Context) (reconcile.Result, time.Duration) {
	began := time.Now()
	r, err := p.Pass(ctx)
	lasted := time.Since(began)
	for id, presetErr := range r.Errors {
		fail("preset %s: %w", id, presetErr)
	}
	must(err)
	return r, lasted
}

// bareRead is the yardstick of idle passes: a plain pgx loop over the same rows.
func (f *fleet) bareRead(ctx context.Context) time.Duration {
	type row struct {
		id, preset, key uuid.UUID
		provider, state string
		incarnation     int32
		created         time.Time
		expires         *time.Time
	}
	began := time.Now()
	rows := get(f.store.Pool.Query(ctx, `SELECT id, preset_id, pool_key, provider, state::text, incarnation, created_at, expires_at
		FROM workspaces WHERE state NOT IN ('claimed', 'deleted')`))
	var all []row
	for rows.Next() {
		var r row
		must(rows.Scan(&r.id, &r.preset, &r.key, &r.provider, &r.state, &r.incarnation, &r.created, &r.expires))
		all = append(all, r)
	}
	must(rows.Err())
	if len(all) == 0 {
		fail("the yardstick read nothing")
	}
	return time.Since(began)
}

// idlePasses are passes that find nothing to do.
func idlePasses(ctx context.Context, b *bench) {
	claimed := sized(b, 200_000, 20_000)
	times := map[string]float64{}
	var failed failures
	for _, c := range []idleCase{
		{"100x10", 100, 10, 0, ""},
		{"1000x10", 1000, 10, 0, ""},
		{fmt.Sprintf("1000x10.beside-%dk", claimed/1000), 1000, 10, claimed, "1000x10"},
		{"1000x100", 1000, 100, 0, "1000x10"},
	} {
		var ours, yard []float64
		if !failed.unless(c.name, func() { ours, yard = b.idle(ctx, c) }) {
			continue
		}
		times[c.name] = median(ours)
		line("passes.idle."+c.name, median(ours), "ms", median(yard), "bare-read-of-the-rows")
		if c.than != "" {
			line("passes.idle."+c.name+".beside-"+c.than, median(ours), "ms", times[c.than], "passes.idle."+c.than)
		}
	}
	failed.must()
}

type idleCase struct {
	name                 string
	pools, each, claimed int
	than                 string // the figure that this one is compared with
}

// idle returns how long passes took, and bare reads in between, in milliseconds.
func (b *bench) idle(ctx context.Context, c idleCase) (ours, yard []float64) {
	f := b.fleet(ctx, c.pools, c.each)
	defer f.drop()
	f.addClaimed(ctx, c.claimed)
	f.add(ctx, c.pools*c.each)
	f.settle(ctx)
	p := f.passer(ctx)
	for range 7 * b.rounds {
		r, took := p.pass(ctx)
		if r.Created+r.Intents+r.Changed > 0 {
			fail("a pass had something to do: %+v", r)
		}
		ours = append(ours, took.Seconds()*1000)
		yard = append(yard, f.bareRead(ctx).Seconds()*1000)
	}
	return ours, yard
}

// creatingPasses are passes that create prebuilds: workspace, job, history and audit row each. What a pass made is taken
// away before the next, so that each finds the pools of its name: a pass also reads all that is in progress.
func creatingPasses(ctx context.Context, b *bench) {
	var failed failures
	for _, c := range []createCase{
		{"1000-at-100x10", 100, 10, 1000},
		{"1000-at-1000x10", 1000, 10, 1000},
		{"1000-at-1000x100", 1000, 100, 1000},
		{"10000-at-100x0", 100, 0, 10_000},
	} {
		failed.unless(c.name, func() { b.creating(ctx, c) })
	}
	failed.must()
}

type createCase struct {
	name                string
	pools, each, create int
}

func (b *bench) creating(ctx context.Context, c createCase) {
	f := b.fleet(ctx, c.pools, c.each)
	defer f.drop()
	f.add(ctx, c.pools*c.each)
	f.settle(ctx)
	p := f.passer(ctx)
	var took, rates, idle, processor []float64
	for range 2*b.rounds + 1 {
		_, nothing := p.pass(ctx)
		get(f.store.Pool.Exec(ctx, "UPDATE presets SET instances = instances + $1", c.create/c.pools))
		b.checkpoint(ctx)
		before := b.processor()
		r, lasted := p.pass(ctx)
		if r.Created != c.create {
			fail("created %d instead of %d", r.Created, c.create)
		}
		spent := b.processor().since(before)
		f.undo(ctx, c.each)
		idle = append(idle, nothing.Seconds()*1000)
		took = append(took, lasted.Seconds()*1000)
		rates = append(rates, float64(c.create)/lasted.Seconds())
		processor = append(processor, float64((spent.here+spent.server).Microseconds())/float64(c.create))
	}
	line("creating."+c.name, median(took), "ms", median(idle), "idle-pass-before")
	line("creating."+c.name+".rate", median(rates), "/s", 0, "")
	line("creating."+c.name+".processor", median(processor), "us", 0, "")
}
