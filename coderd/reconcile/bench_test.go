package reconcile

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// A pass that finds nothing to do, beside nothing and beside 200,000 claimed workspaces.
func BenchmarkPass_idle(b *testing.B) {
	for _, size := range []dbtest.FleetSize{
		{Pools: 100, Each: 10}, {Pools: 1000, Each: 10}, {Pools: 1000, Each: 10, Claimed: 200_000}, {Pools: 1000, Each: 100},
	} {
		b.Run(fmt.Sprintf("%dx%d_beside_%d", size.Pools, size.Each, size.Claimed), func(b *testing.B) {
			store := dbtest.Open(b)
			dbtest.Fleet(b, store, size)
			r := testReconciler(store, "bench")
			if _, err := r.pass(context.Background(), nil); err != nil { // writes the status once
				b.Fatal(err)
			}
			for b.Loop() {
				res, err := r.pass(context.Background(), nil)
				if err != nil || res.Created+res.Intents+res.Changed > 0 {
					b.Fatal(res, err)
				}
			}
		})
	}
}

// A pass over one template of 1,000, as a nudge asks for.
func BenchmarkPass_nudge(b *testing.B) {
	store := dbtest.Open(b)
	dbtest.Fleet(b, store, dbtest.FleetSize{Pools: 1000, Each: 10, Claimed: 100_000})
	r := testReconciler(store, "bench")
	if _, err := r.pass(context.Background(), nil); err != nil {
		b.Fatal(err)
	}
	var template uuid.UUID
	if err := store.Pool.QueryRow(context.Background(), "SELECT id FROM templates WHERE name = 't500'").Scan(&template); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.pass(context.Background(), []uuid.UUID{template}); err != nil {
			b.Fatal(err)
		}
	}
}

// A pass that creates 10,000 prebuilds: workspace, job, history and audit row each.
func BenchmarkPass_create(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		store := dbtest.Open(b)
		dbtest.Fleet(b, store, dbtest.FleetSize{Pools: 100})
		for _, statement := range []string{"UPDATE presets SET instances = 100", "UPDATE providers SET chunk = 1000000"} {
			if _, err := store.Pool.Exec(context.Background(), statement); err != nil {
				b.Fatal(err)
			}
		}
		r := testReconciler(store, "bench")
		b.StartTimer()
		res, err := r.pass(context.Background(), nil)
		if err != nil || res.Created != 10_000 {
			b.Fatal(res, err)
		}
	}
}
