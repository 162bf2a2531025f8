package dbtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/database"
)

// FleetSize is how many rows Fleet makes.
type FleetSize struct {
	Pools, Each      int // templates t1, t2, … of one preset each, with so many ready workspaces
	Claimed, Deleted int // workspaces spread over them
}

// Fleet fills an empty database with a fleet on a provider `sim`, for tests of what a query costs beside many rows. The
// workspaces carry no history and no claims.
func Fleet(t testing.TB, store *database.Store, size FleetSize) {
	t.Helper()
	ctx := context.Background()
	conn, err := store.Pool.Acquire(ctx)
	if err != nil {
		t.Fatalf("fill database: %v", err)
	}
	defer conn.Release()
	for _, statement := range []string{
		"SET session_replication_role = replica", // no foreign key checks, for speed
		"SET statement_timeout = 0",
		"INSERT INTO providers (name, kind, updated_at) VALUES ('sim', 'sim', now())",
		fmt.Sprintf(`INSERT INTO templates (id, organization_id, name, provider, active_version_id, created_at, updated_at)
			SELECT md5('t' || n)::uuid, '00000000-0000-4000-8000-000000000001', 't' || n, 'sim', md5('v' || n)::uuid, now(), now()
			FROM generate_series(1, %d) n`, size.Pools),
		fmt.Sprintf(`INSERT INTO template_versions (id, template_id, number, hash, provider, spec, created_at, created_by)
			SELECT md5('v' || n)::uuid, md5('t' || n)::uuid, 1, 'v' || n, 'sim', '{}', now(),
			       '00000000-0000-4000-8000-000000000002'
			FROM generate_series(1, %d) n`, size.Pools),
		fmt.Sprintf(`INSERT INTO presets (id, organization_id, template_id, name, pool_key, instances, created_at, updated_at)
			SELECT md5('p' || n)::uuid, '00000000-0000-4000-8000-000000000001', md5('t' || n)::uuid, 'default',
			       md5('k' || n)::uuid, %d, now(), now()
			FROM generate_series(1, %d) n`, size.Each, size.Pools),
		fleetOf("ready", size.Pools*size.Each, size.Pools),
		fleetOf("claimed", size.Claimed, size.Pools),
		fleetOf("deleted", size.Deleted, size.Pools),
		"SET session_replication_role = DEFAULT",
		"RESET statement_timeout",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("fill database: %v: %s", err, statement)
		}
	}
	if _, err := conn.Exec(ctx, "VACUUM ANALYZE", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("vacuum database: %v", err)
	}
}

func fleetOf(state string, n, pools int) string {
	return fmt.Sprintf(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id,
		pool_key, provider, parameters, state, owner_id, claim_id, created_at, state_at, ready_at)
		SELECT gen_random_uuid(), '%[1]s' || n, '00000000-0000-4000-8000-000000000001',
		       md5('t' || 1 + n %% %[3]d)::uuid, md5('v' || 1 + n %% %[3]d)::uuid, md5('p' || 1 + n %% %[3]d)::uuid,
		       md5('k' || 1 + n %% %[3]d)::uuid, 'sim', '{}', '%[1]s', '00000000-0000-4000-8000-000000000002',
		       gen_random_uuid(), now(), now(), now() - interval '1 day' + n * interval '1 ms'
		FROM generate_series(1, %[2]d) n`, state, n, pools)
}
