package database_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// What matching and leasing read does not grow with what is over: beside 40 open jobs and 10 deliveries stand 200,000
// completed jobs and as many handled deliveries.
func TestCost_forgeJobsThatAreOver(t *testing.T) {
	t.Parallel()
	const over, queued, running, due, repositories = 200_000, 30, 10, 10, 20
	ctx := context.Background()
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1})
	entity := uuid.New()
	for _, statement := range []string{
		`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, runner_name,
			queued_at, completed_at, seen_at, updated_at)
		SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', 'https://forge.example', n, 1, $1, 'acme/r' || n % 20,
			'{linux}', CASE WHEN n <= 30 THEN 'queued' WHEN n <= 40 THEN 'in_progress' ELSE 'completed' END::forge_job_state,
			CASE WHEN n > 30 THEN 'box' ELSE '' END, now(), CASE WHEN n > 40 THEN now() END,
			now() - interval '1 hour', now()
		FROM generate_series(1, 200040) n`,
		`INSERT INTO forge_deliveries (entity_id, delivery_id, event, body, received_at, due_at, handled_at)
		SELECT $1, n::text, 'workflow_job', '{}', now(), now() - interval '1 minute', CASE WHEN n > 10 THEN now() END
		FROM generate_series(1, 200010) n`,
	} {
		_, err := store.Pool.Exec(ctx, statement, entity)
		require.NoError(t, err)
	}
	// Of all rows, not of a sample: in one that has none of the few jobs that are open, their index looks as good as any key.
	_, err := store.Pool.Exec(ctx, "SET default_statistics_target = 10000; ANALYZE forge_jobs, forge_deliveries")
	require.NoError(t, err)

	for _, c := range []struct {
		name, table string
		most        int64
		run         func(ctx context.Context, db database.DBTX) error
	}{
		{"queued jobs", "forge_jobs", queued, func(ctx context.Context, db database.DBTX) error {
			rows, err := inboxdb.New(db).QueuedForgeJobs(ctx)
			require.Len(t, rows, queued)
			return err
		}},
		{"jobs at runners", "forge_jobs", queued + running, func(ctx context.Context, db database.DBTX) error {
			_, err := inboxdb.New(db).BusyRunners(ctx)
			return err
		}},
		{"jobs whose workspace is not known", "forge_jobs", queued + running, func(ctx context.Context, db database.DBTX) error {
			ids, err := inboxdb.New(db).UnboundForgeJobs(ctx)
			require.Len(t, ids, running)
			return err
		}},
		{"jobs to ask after", "forge_jobs", queued + running, func(ctx context.Context, db database.DBTX) error {
			rows, err := inboxdb.New(db).ForgeJobsToAsk(ctx, inboxdb.ForgeJobsToAskParams{EntityID: entity, QuietS: 120, MaxJobs: 20})
			require.Len(t, rows, 20)
			return err
		}},
		{"repositories", "forge_jobs", 2 * (repositories + 1), func(ctx context.Context, db database.DBTX) error {
			names, err := inboxdb.New(db).ForgeRepositories(ctx, entity)
			require.Len(t, names, repositories)
			return err
		}},
		{"earlier attempts", "forge_jobs", 4, func(ctx context.Context, db database.DBTX) error {
			_, err := inboxdb.New(db).SupersedeForgeJobs(ctx, inboxdb.SupersedeForgeJobsParams{ForgeUrl: "https://forge.example", JobIds: []int64{3}})
			return err
		}},
		{"due deliveries", "forge_deliveries", 2 * due, func(ctx context.Context, db database.DBTX) error {
			rows, err := inboxdb.New(db).LeaseDeliveries(ctx, inboxdb.LeaseDeliveriesParams{Replica: "a", LeaseS: 30, MaxDeliveries: 100})
			require.Len(t, rows, due)
			return err
		}},
		{"a webhook", "forge_deliveries", 1, func(ctx context.Context, db database.DBTX) error {
			n, err := inboxdb.New(db).InsertDelivery(ctx, inboxdb.InsertDeliveryParams{
				EntityID: entity, DeliveryID: "new", Event: "workflow_job", Body: []byte("{}"),
			})
			require.EqualValues(t, 1, n)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.LessOrEqual(t, rowsRead(t, store, c.table, c.run), c.most)
		})
	}
}
