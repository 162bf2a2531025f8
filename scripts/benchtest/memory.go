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
	// All the resources are there, as at an inventory on any ordinary day.
	f.cloud = filepath.Join(b.scratch, "cloud")
	defer os.RemoveAll(f.cloud)
	if f.installation, err = f.store.EnsureInstallation(ctx); err != nil {
		return err
	}
	_, err = f.store.Pool.Exec(ctx, "UPDATE providers SET config = jsonb_build_object('root', $1::text)", f.cloud)
	if err != nil {
		return err
	}
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
	if err := r.printResident("memory.resident"); err != nil {
		return err
	}
	if err := f.inventory(ctx, pools*each); err != nil {
		return err
	}
	if err := r.printResident("memory.resident.inventory"); err != nil {
		return err
	}
	line("memory.workspaces", float64(pools*each), "", 0, "")
	return nil
}

func (r *replica) printResident(name string) error {
	now, most, err := r.resident()
	if err != nil {
		return err
	}
	line(name, float64(now)/(1<<20), "MiB", 0, "")
	line(name+".peak", float64(most)/(1<<20), "MiB", 0, "")
	return nil
}

// inventory has the fleet's replica make one, waits for its end, and checks that at least so many resources were where they
// belong: one that finds something amiss remembers that, and needs more.
func (f *fleet) inventory(ctx context.Context, resources int) error {
	if _, err := f.store.Pool.Exec(ctx, "UPDATE inventories SET due_at = now() WHERE provider = 'sim'"); err != nil {
		return err
	}
	var outcome, failed string
	var attempt, found, amiss int
	var took float64
	err := until(ctx, 3*time.Minute, "inventory", func() (ended bool, err error) {
		err = f.store.Pool.QueryRow(ctx, `SELECT ended_at IS NOT NULL AND leased_until <= now(), outcome, error, resources,
			discrepancies, took_s, attempt FROM inventories WHERE provider = 'sim'`).Scan(&ended, &outcome, &failed, &found, &amiss, &took, &attempt)
		return ended, err
	})
	switch {
	case err != nil:
		return err
	case outcome != "complete" || found < resources || amiss > 0:
		return fmt.Errorf("the inventory was %s with %d resources and %d discrepancies: %s", outcome, found, amiss, failed)
	}
	fmt.Fprintf(os.Stderr, "# an inventory of %d resources took %.1f s (attempt %d)\n", found, took, attempt)
	return nil
}
