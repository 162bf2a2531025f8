package main

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// memory is what a replica needs beside a fleet that it passes over again and again.
func memory(ctx context.Context, b *bench) error {
	pools, each, passes := 1000, 100, 20
	if b.quick {
		pools, passes = 200, 5
	}
	f, err := b.fleet(ctx, pools, each)
	if err != nil {
		return err
	}
	defer f.drop()
	if err := f.add(ctx, pools*each); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	r, err := b.serve(ctx, f, "memory", time.Second)
	if err != nil {
		return err
	}
	defer r.stop()
	err = until(ctx, 5*time.Minute, "passes", func() (bool, error) {
		for range 20 {
			if _, err := r.client.Claim(ctx, sdk.ClaimRequest{Template: f.pools[0].name, Preset: "default", Mode: "prefer"}); err != nil {
				return false, err
			}
		}
		var seq int
		err := f.store.Pool.QueryRow(ctx, "SELECT full_seq FROM reconcile_fence").Scan(&seq)
		return seq >= passes, err
	})
	if err != nil {
		return err
	}
	now, most, err := r.resident()
	if err != nil {
		return err
	}
	line("memory.resident", float64(now)/(1<<20), "MiB", 0, "")
	line("memory.resident.peak", float64(most)/(1<<20), "MiB", 0, "")
	line("memory.workspaces", float64(pools*each), "", 0, "")
	return nil
}
