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

// Deliveries that were handled go after a week, and completed jobs after 30 days; what is not over stays, however old.
func TestPurge_forges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	for _, statement := range []string{
		`INSERT INTO forge_deliveries (entity_id, delivery_id, event, body, received_at, due_at, handled_at)
		SELECT gen_random_uuid(), n::text, 'ping', '{}', prewarm_now() - n * interval '1 day' - interval '1 minute', prewarm_now(),
			CASE WHEN n <> 20 THEN prewarm_now() END
		FROM generate_series(0, 29) n`,
		`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, queued_at,
			completed_at, seen_at, updated_at)
		SELECT gen_random_uuid(), gen_random_uuid(), 'x', n, 1, gen_random_uuid(), 'a/b', '{}',
			CASE WHEN n = 90 THEN 'queued' ELSE 'completed' END::forge_job_state, prewarm_now() - n * interval '1 day',
			CASE WHEN n <> 90 THEN prewarm_now() - n * interval '1 day' - interval '1 minute' END, prewarm_now(), prewarm_now()
		FROM generate_series(0, 99) n`,
	} {
		_, err := store.Pool.Exec(ctx, statement)
		require.NoError(t, err)
	}
	_, err := store.Pool.Exec(ctx, `INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status_at,
			status_since, created_at, removed_at)
		SELECT gen_random_uuid(), 0, gen_random_uuid(), gen_random_uuid(), name, prewarm_now(), prewarm_now(),
			prewarm_now() - interval '9 days', removed_at
		FROM (VALUES ('open', NULL), ('late', prewarm_now()), ('old', prewarm_now() - interval '8 days')) r (name, removed_at)`)
	require.NoError(t, err)
	keeper := &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)}
	require.NoError(t, keeper.Purge(ctx))
	var deliveries, jobs int
	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM forge_deliveries), (SELECT count(*) FROM forge_jobs)`).
		Scan(&deliveries, &jobs))
	require.Equal(t, []int{7 + 1, 30 + 1}, []int{deliveries, jobs})
	var runners []string
	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT array_agg(name ORDER BY name) FROM forge_runners`).Scan(&runners))
	require.Equal(t, []string{"late", "open"}, runners)
}
