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

// The newest five versions of a Terraform state stay for as long as their workspace has a row, a deleted one's too. So does its output.
func TestPurge_terraformStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 2, Deleted: 1})
	exec := func(sql string) {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec(`INSERT INTO terraform_states (workspace_id, version, incarnation, lineage, serial, sealed, sealed_by, size, md5, created_at)
		SELECT w.id, n, 1, 'l', n, 'x', 'k', 1, decode(md5(''), 'hex'), now()
		FROM (SELECT id FROM workspaces UNION ALL SELECT md5('gone')::uuid) w, generate_series(1, 1200) n`) // more than one batch
	exec(`DELETE FROM terraform_states WHERE version > 3 AND workspace_id = (SELECT min(id::text)::uuid FROM workspaces)`)
	exec(`INSERT INTO terraform_runs (workspace_id, incarnation, job_id, attempt, token_hash, created_at)
		SELECT w.id, 1, md5('job')::uuid, 1, sha256(''), now() FROM (SELECT id FROM workspaces UNION ALL SELECT md5('gone')::uuid) w`)
	exec(`INSERT INTO terraform_output (workspace_id, seq, chunk, created_at) SELECT workspace_id, n, 'said', now() FROM terraform_runs, generate_series(1, 2) n`)

	keeper := &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)}
	require.NoError(t, keeper.Purge(ctx))
	var left string
	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT string_agg(kept, ' ' ORDER BY kept) FROM (
		SELECT min(version) || '-' || max(version) AS kept FROM terraform_states GROUP BY workspace_id) k`).Scan(&left))
	require.Equal(t, "1-3 1196-1200 1196-1200", left)
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*)::text FROM terraform_runs").Scan(&left))
	require.Equal(t, "3", left)
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*)::text FROM terraform_output").Scan(&left))
	require.Equal(t, "6", left)
}

// Archives of modules stay while a version of a template in their organization names them, or a workspace was made with one, and for a
// day after they were used.
func TestPurge_terraformModules(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 3, Each: 1})
	exec := func(sql string) {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec(`INSERT INTO organizations (id, name, created_at) VALUES (md5('other')::uuid, 'other', now())`)
	exec(`CREATE FUNCTION digest_of(what text) RETURNS text LANGUAGE sql AS $$ SELECT 'sha256:' || encode(sha256(what::bytea), 'hex') $$`)
	exec(`INSERT INTO terraform_modules (organization_id, digest, archive, size, created_at, used_at)
		SELECT o.id, digest_of(what), what::bytea, length(what), now() - interval '1 year',
		       CASE WHEN what = 'fresh' THEN now() - interval '23 hours' ELSE now() - interval '25 hours' END
		FROM (SELECT organization_id AS id FROM templates LIMIT 1) o, unnest('{fresh,old,named,deleted,made,busy}'::text[]) what`)
	exec(`INSERT INTO terraform_modules (organization_id, digest, archive, size, created_at, used_at)
		SELECT md5('other')::uuid, digest, archive, size, created_at, used_at FROM terraform_modules WHERE archive IN ('named', 'made')`)
	name := func(nth int, what string) {
		_, err := store.Pool.Exec(ctx, `UPDATE template_versions SET spec = jsonb_build_object('module', digest_of($2))
			WHERE template_id = (SELECT id FROM templates ORDER BY id OFFSET $1 LIMIT 1)`, nth, what)
		require.NoError(t, err)
	}
	name(0, "named")
	name(1, "deleted")
	exec(`UPDATE templates SET deleted_at = now() WHERE id = (SELECT id FROM templates ORDER BY id OFFSET 1 LIMIT 1)`)
	exec(`INSERT INTO terraform_runs (workspace_id, incarnation, job_id, attempt, token_hash, created_at, archive)
		SELECT id, 1, md5('job')::uuid, 1, sha256(''), now(), digest_of('made') FROM workspaces LIMIT 1`)
	left := func() (kept string) {
		require.NoError(t, store.Pool.QueryRow(ctx, `SELECT string_agg(o.name || ' ' || convert_from(m.archive, 'UTF8'), ', ' ORDER BY o.name, m.archive)
			FROM terraform_modules m JOIN organizations o ON o.id = m.organization_id`).Scan(&kept))
		return kept
	}
	// One that is being used at this moment.
	tx, err := store.Pool.Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	_, err = tx.Exec(ctx, "UPDATE terraform_modules SET used_at = now() WHERE archive = 'busy'")
	require.NoError(t, err)

	keeper := &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)}
	require.NoError(t, keeper.Purge(ctx))
	require.Equal(t, "default busy, default fresh, default made, default named, other made", left())
	require.NoError(t, tx.Commit(ctx))
	exec("DELETE FROM terraform_runs")
	require.NoError(t, keeper.Purge(ctx))
	require.Equal(t, "default busy, default fresh, default named", left())
}
