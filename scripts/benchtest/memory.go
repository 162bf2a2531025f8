package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// memory is what a replica needs beside a fleet that it passes over again and again, before an inventory and after it.
func memory(ctx context.Context, b *bench) {
	pools, each, passes := sized(b, 1000, 200), 100, sized(b, 20, 5)
	f := b.fleet(ctx, pools, each)
	defer f.drop()
	// All the resources are there, as at an inventory on any ordinary day.
	f.cloud = filepath.Join(b.scratch, "cloud")
	defer os.RemoveAll(f.cloud)
	f.installation = get(f.store.EnsureInstallation(ctx))
	get(f.store.Pool.Exec(ctx, "UPDATE providers SET config = jsonb_build_object('root', $1::text)", f.cloud))
	f.add(ctx, pools*each)
	f.settle(ctx)
	r := b.serve(ctx, f, "memory", time.Second)
	defer r.stop()
	until(ctx, 5*time.Minute, "passes", func() bool {
		for range 20 {
			get(r.client.Claim(ctx, sdk.ClaimRequest{Template: f.pools[0].name, Preset: "default", Mode: "prefer"}))
		}
		return one[int](ctx, f, "SELECT full_seq FROM reconcile_fence") >= passes
	})
	r.printResident("memory.resident")
	f.inventory(ctx, pools*each)
	r.printResident("memory.resident.inventory")
	line("memory.workspaces", float64(pools*each), "", 0, "")
}

func (r *replica) printResident(name string) {
	now, most := r.resident()
	line(name, float64(now)/(1<<20), "MiB", 0, "")
	line(name+".peak", float64(most)/(1<<20), "MiB", 0, "")
}

// inventory has the fleet's replica make one, waits for its end, and checks that at least so many resources were where they
// belong: one that finds something amiss remembers that, and needs more.
func (f *fleet) inventory(ctx context.Context, resources int) {
	get(f.store.Pool.Exec(ctx, "UPDATE inventories SET due_at = now() WHERE provider = 'sim'"))
	var outcome, failed string
	var attempt, found, amiss int
	var took float64
	until(ctx, 3*time.Minute, "inventory", func() (ended bool) {
		must(f.store.Pool.QueryRow(ctx, `SELECT ended_at IS NOT NULL AND leased_until <= now(), outcome, error, resources,
			discrepancies, took_s, attempt FROM inventories WHERE provider = 'sim'`).Scan(&ended, &outcome, &failed, &found, &amiss, &took, &attempt))
		return ended
	})
	if outcome != "complete" || found < resources || amiss > 0 {
		fail("the inventory was %s with %d resources and %d discrepancies: %s", outcome, found, amiss, failed)
	}
	fmt.Fprintf(os.Stderr, "# an inventory of %d resources took %.1f s (attempt %d)\n", found, took, attempt)
}
