package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// refill measures from the commit of a claim to the lease of the job that makes its replacement, both by the database's
// clock, on a running server whose tick is 15 s: nudge, pass, commit, wake-up and lease.
func refill(ctx context.Context, b *bench) error {
	const pools, each, perSecond = 20, 5, 20
	n := 400
	if b.quick {
		n = 80
	}
	f, err := b.fleet(ctx, pools, each)
	if err != nil {
		return err
	}
	defer f.drop()
	r, err := b.serve(ctx, f, "refill", 15*time.Second)
	if err != nil {
		return err
	}
	defer r.stop()
	if err := f.full(ctx, pools*each); err != nil {
		return err
	}
	for i := range n {
		res, err := r.client.Claim(ctx, sdk.ClaimRequest{Template: f.pools[i%pools].name, Preset: "default", Mode: "prefer"})
		if err != nil {
			return err
		}
		if res.WorkspaceID == nil {
			return fmt.Errorf("a claim was a miss: %s", res.Reason)
		}
		time.Sleep(time.Second / perSecond)
	}
	if err := f.full(ctx, pools*each); err != nil {
		return err
	}
	// A job that is done keeps the end of its lease, which began 15 s before it.
	rows, err := f.store.Pool.Query(ctx, `SELECT extract(epoch FROM j.due_at - interval '15 s' - c.bound_at)::float8
		FROM claims c
		CROSS JOIN LATERAL (
			SELECT j.due_at FROM jobs j JOIN workspaces w ON w.id = j.workspace_id
			WHERE w.preset_id = c.preset_id AND j.kind = 'create' AND j.attempt = 1 AND j.created_at >= c.bound_at
			ORDER BY j.created_at LIMIT 1) j
		WHERE c.outcome = 'hit'`)
	if err != nil {
		return err
	}
	var took []time.Duration
	for rows.Next() {
		var s float64
		if err := rows.Scan(&s); err != nil {
			return err
		}
		took = append(took, time.Duration(s*float64(time.Second)))
	}
	if len(took) < n/2 {
		return fmt.Errorf("%d refills for %d claims", len(took), n)
	}
	line("refill.leased.p50", float64(quantile(took, 0.5).Microseconds())/1000, "ms", 0, "")
	line("refill.leased.p99", float64(quantile(took, 0.99).Microseconds())/1000, "ms", 0, "")
	return rows.Err()
}

// full waits until so many are ready.
func (f *fleet) full(ctx context.Context, n int) error {
	return until(ctx, 3*time.Minute, "pools are filled", func() (bool, error) {
		var ready int
		err := f.store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state = 'ready'").Scan(&ready)
		return ready >= n, err
	})
}
