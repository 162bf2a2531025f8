package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
)

// G5: what a provider fails to delete is tried again after a pause that doubles from a second with each failure, up to five
// minutes.
func TestRetry_waitsLongerEachTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, p := newWorld(t)
	p.delete = func(context.Context) error { return xerrors.New("no answer") }
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "a pool of one", func() bool { return w.Count(t, "a", "ready") == 1 })
	r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	for failures, most := range map[int]time.Duration{
		3: 8 * time.Second, 5: 32 * time.Second, 7: 128 * time.Second, 30: 5 * time.Minute,
	} {
		coderdtest.Eventually(t, "it has failed so often", func() bool {
			tag, err := w.Store.Pool.Exec(ctx, `UPDATE jobs SET failures = $1, due_at = prewarm_now()
				WHERE kind = 'delete' AND state = 'pending'`, failures)
			require.NoError(t, err)
			return tag.RowsAffected() == 1
		})
		r.Worker.Wake()
		var pause float64 // seconds, between half and all of it, less what has passed since
		coderdtest.Eventually(t, "it fails once more", func() bool {
			return w.Store.Pool.QueryRow(ctx, `SELECT extract(epoch FROM due_at - prewarm_now())::float8 FROM jobs
				WHERE kind = 'delete' AND state = 'pending' AND failures = $1`, failures+1).Scan(&pause) == nil
		})
		require.LessOrEqual(t, pause, most.Seconds(), "after %d failures", failures)
		require.Greater(t, pause, most.Seconds()/4, "after %d failures", failures)
	}
}
