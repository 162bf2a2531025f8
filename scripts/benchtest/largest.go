package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/database"
)

// largest are idle passes over up to 10,000 presets with 100 workspaces each, whether their time and memory grow in line with
// the fleet, and what a pass for one template costs beside. One pass at a time suffices for as long as a whole one is well
// within a tick.
func largest(ctx context.Context, b *bench) {
	presets := sized(b, 10_000, 1_000)
	var first struct{ time, memory float64 }
	for i, n := range []int{presets / 10, presets / 3, presets} {
		name := fmt.Sprintf("largest.%dx100", n)
		whole, yard, one, memory := b.largestOf(ctx, n)
		line(name+".pass", whole, "ms", yard, "bare-read-of-the-rows")
		if i == 0 {
			first.time, first.memory = whole, memory
		} else {
			grown := float64(n) / float64(presets/10)
			line(name+".pass.of-growth", whole, "ms", first.time*grown, "in-line-with-the-first")
			line(name+".memory.of-growth", memory, "MiB", first.memory*grown, "in-line-with-the-first")
		}
		line(name+".memory", memory, "MiB", 0, "")
		line(name+".one-template", one, "ms", whole, name+".pass")
	}
}

// largestOf returns medians in milliseconds of a whole pass, a bare read and a plan for one template, and the most memory that
// the heap took while passes ran, in MiB.
func (b *bench) largestOf(ctx context.Context, presets int) (whole, yard, one, memory float64) {
	f := b.fleet(ctx, presets, 100)
	defer f.drop()
	f.add(ctx, presets*100)
	f.settle(ctx)
	p := f.passer(ctx)
	var passes, reads, plans []float64
	for i := range 2*b.rounds + 1 {
		reads = append(reads, f.bareRead(ctx).Seconds()*1000)
		plans = append(plans, p.planOne(ctx, f.store, f.pools[i%len(f.pools)].template).Seconds()*1000)
		runtime.GC()
		most := peak(func() {
			r, took := p.pass(ctx)
			if r.Created+r.Intents+r.Changed > 0 {
				fail("a pass had something to do: %+v", r)
			}
			passes = append(passes, took.Seconds()*1000)
		})
		memory = max(memory, float64(most)/(1<<20))
	}
	return median(passes), median(reads), median(plans), memory
}

// planOne reads and decides what a nudge for a template would have a pass read and decide.
func (p passer) planOne(ctx context.Context, store *database.Store, template uuid.UUID) (took time.Duration) {
	must(store.InTx(ctx, database.TxOptions{Label: "plan", Isolation: pgx.RepeatableRead}, func(ctx context.Context, tx pgx.Tx) error {
		began := time.Now()
		planned, err := p.Preview(ctx, tx, []uuid.UUID{template})
		took = time.Since(began)
		if err == nil && len(planned.Presets) != 1 {
			fail("planned %d presets", len(planned.Presets))
		}
		return err
	}))
	return took
}

// peak is the most that the heap has of objects while something is done, in bytes.
func peak(do func()) (most uint64) {
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	do()
	close(done)
	sampling.Wait()
	return most
}
