package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// refill measures from the commit of a claim to the lease of the job that makes its replacement, both by the database's
// clock, on a running server whose tick is 15 s: nudge, pass, commit, wake-up and lease.
func refill(ctx context.Context, b *bench) {
	const pools, each, perSecond = 20, 5, 20
	n := sized(b, 400, 80)
	f, r, end := b.running(ctx, pools, each, "refill")
	defer end()
	for i := range n {
		res := get(r.client.Claim(ctx, sdk.ClaimRequest{Template: f.pools[i%pools].name, Preset: "default", Mode: "prefer"}))
		if res.WorkspaceID == nil {
			fail("a claim was a miss: %s", res.Reason)
		}
		time.Sleep(time.Second / perSecond)
	}
	f.full(ctx, pools*each)
	// A job that is done keeps the end of its lease, which began 15 s before it.
	rows := get(f.store.Pool.Query(ctx, `SELECT extract(epoch FROM j.due_at - interval '15 s' - c.bound_at)::float8
		FROM claims c
		CROSS JOIN LATERAL (
			SELECT j.due_at FROM jobs j JOIN workspaces w ON w.id = j.workspace_id
			WHERE w.preset_id = c.preset_id AND j.kind = 'create' AND j.attempt = 1 AND j.created_at >= c.bound_at
			ORDER BY j.created_at LIMIT 1) j
		WHERE c.outcome = 'hit'`))
	took := get(pgx.CollectRows(rows, func(row pgx.CollectableRow) (time.Duration, error) {
		var s float64
		err := row.Scan(&s)
		return time.Duration(s * float64(time.Second)), err
	}))
	if len(took) < n/2 {
		fail("%d refills for %d claims", len(took), n)
	}
	quantiles("refill.leased", took)
}
