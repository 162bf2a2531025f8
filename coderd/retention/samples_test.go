package retention_test

import (
	"context"
	"testing"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Samples go after 14 days, however many there are and whether or not their preset is still there.
func TestPurge_presetSamples(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	_, err := store.Pool.Exec(ctx, `INSERT INTO preset_samples
		SELECT md5('p')::uuid, prewarm_now() - i * interval '5 minutes' - interval '14 days 1 minute', 1, 1, 0, 0
		FROM generate_series(0, 2500) i
		UNION ALL
		SELECT md5('p')::uuid, prewarm_now() - i * interval '1 day', 1, 1, 0, 0 FROM generate_series(0, 13) i`)
	require.NoError(t, err)
	keeper := &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)}
	require.NoError(t, keeper.Purge(ctx))
	var left int
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM preset_samples").Scan(&left))
	require.Equal(t, 14, left)
}
