package autosize_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
)

// Pools are sampled once in a bucket, by whichever replica; a row is written where something changed or the last is an hour
// old, so that a quiet fleet costs little.
func TestSamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("busy", "{mode: forecast, max: 40}")
	w.pool("quiet", "{mode: forecast, max: 40}")
	w.pool("unseen", "{mode: forecast, max: 40}") // no pass has been over it
	status := func(template string, desired, actual, starting int) {
		w.exec(`INSERT INTO preset_status (preset_id, counts, ledger, error, digest, pass_seq, changed_at)
			VALUES ($1, jsonb_build_object('desired', $2::int, 'actual', $3::int, 'starting', $4::int), 'null', '', '', 0, now())
			ON CONFLICT (preset_id) DO UPDATE SET counts = excluded.counts`, w.Preset(t, template), desired, actual, starting)
	}
	rows := func() (all [][5]int) {
		t.Helper()
		found, err := w.Store.Pool.Query(context.Background(), `SELECT (preset_id = $1)::int, desired, ready, starting, claimed
			FROM preset_samples WHERE preset_id <> $2 ORDER BY bucket, 1 DESC`, w.Preset(t, "busy"), w.Preset(t, "unseen"))
		require.NoError(t, err)
		defer found.Close()
		for found.Next() {
			var r [5]int
			require.NoError(t, found.Scan(&r[0], &r[1], &r[2], &r[3], &r[4]))
			all = append(all, r)
		}
		return all
	}
	earlier := func(by time.Duration) { // as if what there is had been written that much earlier
		w.exec("UPDATE preset_samples SET bucket = bucket - $1 * interval '1 second'", by.Seconds())
		w.exec("UPDATE autosize_progress SET sampled_at = sampled_at - $1 * interval '1 second'", by.Seconds())
	}
	first, second := w.service(), w.service()
	status("busy", 5, 3, 2)
	status("quiet", 2, 2, 0)
	w.step(first)
	require.Equal(t, [][5]int{{1, 5, 3, 2, 0}, {0, 2, 2, 0, 0}}, rows())

	earlier(5 * time.Minute)
	status("busy", 5, 5, 0)
	w.step(second)
	require.Equal(t, [][5]int{{1, 5, 3, 2, 0}, {0, 2, 2, 0, 0}, {1, 5, 5, 0, 0}}, rows(), "only what changed")

	taken := func() (at time.Time) {
		require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT sampled_at FROM autosize_progress").Scan(&at))
		return at.UTC()
	}
	before := taken()
	w.step(first)
	after := taken()
	require.Equal(t, before.Truncate(sizing.BucketLength).Equal(after.Truncate(sizing.BucketLength)), before.Equal(after),
		"once in a bucket, whoever steps")

	w.exec("DELETE FROM preset_samples")
	w.exec("UPDATE autosize_progress SET sampled_at = NULL")
	w.step(first)
	require.Len(t, rows(), 2)
	earlier(time.Hour)
	w.step(first)
	require.Len(t, rows(), 4, "and once an hour")
	var n int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM preset_samples WHERE preset_id = $1",
		w.Preset(t, "unseen")).Scan(&n))
	require.Zero(t, n, "nothing is known of what no pass has seen")
}
