package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// A transaction that stays open on the row of one job, such as that of a replica that was frozen in it, holds up the
// heartbeat of no other.
func TestExtend_oneRowIsLocked(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, p := newWorld(t)
	release := make(chan struct{})
	defer close(release)
	p.create = func(ctx context.Context, _ provider.CreateRequest) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-release:
			return nil
		}
	}
	w.Pool(t, "a", 2, 1)
	w.Start(t, coderdtest.Config{Lease: 40 * time.Second}) // with heartbeats every 8 s, of which one may come late
	var running int
	coderdtest.Eventually(t, "both creates run", func() bool {
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM jobs WHERE state = 'running'").Scan(&running))
		return running == 2
	})
	tx, err := w.Store.Pool.Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	_, err = tx.Exec(ctx, "SELECT FROM jobs WHERE id = (SELECT min(id::text)::uuid FROM jobs) FOR UPDATE")
	require.NoError(t, err)
	other := func() (attempt int, lease time.Time) {
		require.NoError(t, w.Store.Pool.QueryRow(ctx,
			"SELECT attempt, due_at FROM jobs WHERE id = (SELECT max(id::text)::uuid FROM jobs)").Scan(&attempt, &lease))
		return attempt, lease
	}
	attempt, lease := other()
	coderdtest.Eventually(t, "the lease of the other is extended", func() bool {
		now, extended := other()
		require.Equal(t, attempt, now, "the lease of the other ran out")
		return extended.After(lease)
	})
	var ids []uuid.UUID // the locked one first
	var attempts []int32
	require.NoError(t, w.Store.Pool.QueryRow(ctx,
		"SELECT array_agg(id ORDER BY id::text), array_agg(attempt ORDER BY id::text) FROM jobs").Scan(&ids, &attempts))
	rows, err := lifecycledb.New(w.Store).ExtendLeases(ctx, lifecycledb.ExtendLeasesParams{Ids: ids, Attempts: attempts, LeaseS: 40})
	require.NoError(t, err)
	require.ElementsMatch(t, []lifecycledb.ExtendLeasesRow{{ID: ids[0]}, {ID: ids[1], Extended: true}}, rows)
}
