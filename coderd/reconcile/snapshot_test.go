package reconcile

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// Each preset of a snapshot has the rows of its own pool, whatever other presets and its earlier pools have. The
// snapshot of a nudge has the same rows for its templates.
func TestSnapshot_rowsOfEachPreset(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 3, Claimed: 4}) // t1 has one, t2 two, t3 one
	stopped, open := dbtest.Forge(t, store, "stopped", "github", "organization"), dbtest.Forge(t, store, "open", "gitea", "organization")
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := store.Pool.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	const presets = "(SELECT p.*, substr(t.name, 2)::int AS n FROM presets p JOIN templates t ON t.id = p.template_id) p"
	exec("UPDATE template_versions v SET number = substr(t.name, 2)::int * 10 FROM templates t WHERE t.id = v.template_id")
	exec("UPDATE forge_entities SET stopped_at = now(), stopped_reason = 'moving', drain_at = now() WHERE id = $1", stopped)
	exec(`UPDATE presets SET runner_labels = '{linux}', runner_maximum = 5, forge_entity_id =
		CASE WHEN template_id = md5('t1')::uuid THEN $1::uuid ELSE $2 END WHERE template_id <> md5('t3')::uuid`, stopped, open)
	exec(`UPDATE presets SET autosize = jsonb_build_object('min', 1, 'max', 50, 'mode',
		CASE WHEN template_id = md5('t3')::uuid THEN 'recommend' ELSE 'apply' END)`)
	exec(`INSERT INTO preset_sizes (preset_id, size, forecast, recent, boost, reason, state, computed_at)
		SELECT p.id, p.n * 7, 0, 0, 1, '', '{}', now() FROM ` + presets)
	exec(`INSERT INTO preset_status (preset_id, counts, ledger, digest, pass_seq, changed_at, shrunk_at)
		SELECT p.id, '{}', '{}', convert_to('digest ' || p.n, 'UTF8'), 1, now(), now() - p.n * interval '1 hour' FROM ` + presets)
	// All earlier pools failed. Only the pool of t1 is proven; t2 and t3 have proofs of earlier pools.
	exec(`INSERT INTO preset_failures (preset_id, pool_key, streak, last_error, last_at, permanent, first_at)
		SELECT p.id, p.pool_key, p.n, 'failure ' || p.n, now(), p.n, now() FROM ` + presets + ` WHERE p.n < 3
		UNION ALL SELECT p.id, gen_random_uuid(), 9, 'earlier', now(), 9, now() FROM ` + presets)
	exec(`INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
		SELECT p.id, CASE WHEN p.n = 1 THEN p.pool_key ELSE gen_random_uuid() END, now() FROM ` + presets)
	exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at)
		SELECT gen_random_uuid(), p.organization_id, p.id, gen_random_uuid(), 'prefer', 'waiting', now(), now() + interval '1 hour'
		FROM ` + presets + ", generate_series(1, p.n)")
	exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, preset_id,
			queued_at, seen_at, updated_at)
		SELECT gen_random_uuid(), p.organization_id, 'https://forge.invalid', p.n * 100 + g.g, 1, p.id, 'acme/tool', '{linux}',
			'queued', p.id, now(), now(), now()
		FROM ` + presets + ", generate_series(1, 2 * p.n) g (g)")

	type seen struct {
		version, autosized, streak, permanent, waiting, queued, busy int32
		failure, digest                                              string
		unproven                                                     bool
		forge                                                        reconciledb.SnapshotStoppedForgesRow
		shrunk                                                       time.Duration
	}
	want := map[string]seen{
		"t1": {
			version: 10, autosized: 7, streak: 1, permanent: 1, waiting: 1, queued: 2, busy: 1, failure: "failure 1",
			digest: "digest 1", forge: reconciledb.SnapshotStoppedForgesRow{Name: "stopped", StoppedReason: "moving", Drains: true},
			shrunk: time.Hour,
		},
		"t2": {
			version: 20, autosized: 14, streak: 2, permanent: 2, waiting: 2, queued: 4, busy: 2, failure: "failure 2",
			digest: "digest 2", unproven: true, shrunk: 2 * time.Hour,
		},
		"t3": {version: 30, autosized: -1, waiting: 3, digest: "digest 3", unproven: true, shrunk: 3 * time.Hour},
	}
	err := store.InTx(ctx, database.TxOptions{Label: "snapshot", Isolation: pgx.RepeatableRead}, func(ctx context.Context, tx pgx.Tx) error {
		now, err := reconciledb.New(tx).TransactionNow(ctx)
		require.NoError(t, err)
		read := func(templates ...uuid.UUID) []reconciledb.SnapshotPresetsRow {
			rows, _, err := readPools(ctx, tx, templates)
			require.NoError(t, err)
			slices.SortFunc(rows, func(a, b reconciledb.SnapshotPresetsRow) int { return cmp.Compare(a.Template, b.Template) })
			return rows
		}
		all := read()
		require.Len(t, all, 3)
		templates := []uuid.UUID{all[0].TemplateID, all[1].TemplateID, all[2].TemplateID}
		active, err := reconciledb.New(tx).ActiveVersions(ctx, templates)
		require.NoError(t, err)
		versions := lists.Keyed(active, func(row reconciledb.ActiveVersionsRow) (uuid.UUID, int32) { return row.ID, row.Number })
		stopped, err := stoppedForges(ctx, tx, all)
		require.NoError(t, err)
		for _, row := range all {
			forge := stopped[row.ForgeEntityID.UUID]
			forge.ID = uuid.Nil
			got := seen{
				version: versions[row.TemplateID], autosized: row.Autosized, streak: row.FailureStreak, permanent: row.FailuresPermanent,
				waiting: row.Waiting, queued: row.Queued, busy: row.Busy, failure: row.Failure, digest: string(row.Digest),
				forge: forge, unproven: row.Unproven, shrunk: now.Sub(*row.ShrunkAt).Round(time.Hour),
			}
			require.Equal(t, want[row.Template], got, row.Template)
			require.Equal(t, []reconciledb.SnapshotPresetsRow{row}, read(row.TemplateID))
		}
		require.Equal(t, all, read(templates[2], templates[0], templates[1]))
		return nil
	})
	require.NoError(t, err)
}

// C4: what is not wanted any more goes, down to the last, and its status says why. The pool beside it stays.
func TestSnapshot_retired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for code, sql := range map[string]string{
		"template_deprecated": "UPDATE templates SET deprecated_at = now() WHERE name = 't1'",
		"template_deleted":    "UPDATE templates SET deleted_at = now() WHERE name = 't1'",
		"preset_removed":      "UPDATE presets SET deleted_at = now() WHERE template_id = md5('t1')::uuid",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			store := dbtest.Open(t)
			dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 2, Each: 2})
			_, err := store.Pool.Exec(ctx, sql)
			require.NoError(t, err)
			pass(ctx, t, testReconciler(store, "one"))
			var going, staying int
			require.NoError(t, store.Pool.QueryRow(ctx, `SELECT count(i.*) FILTER (WHERE w.template_id = md5('t1')::uuid), count(*) - count(i.*)
				FROM workspaces w LEFT JOIN intents i ON i.workspace_id = w.id`).Scan(&going, &staying))
			require.Equal(t, []int{2, 2}, []int{going, staying})
			var ledger string
			require.NoError(t, store.Pool.QueryRow(ctx, `SELECT ledger::text FROM preset_status
				WHERE preset_id = md5('p1')::uuid`).Scan(&ledger))
			require.Contains(t, ledger, `"`+code+`"`)
		})
	}
}

// S3: nothing is created at a provider whose breaker is open, however well another one is listed. One of its own sites that works
// is enough.
func TestSnapshot_breakerOfEachProvider(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1})
	exec := func(sql string) {
		t.Helper()
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec("UPDATE presets SET instances = 2")
	exec("INSERT INTO providers (name, kind, updated_at) VALUES ('other', 'sim', now())")
	exec(`INSERT INTO inventories (provider, site, leased_until, due_at, full_at, complete_at, opened_at, reason) VALUES
		('other', '', now(), now(), now(), now(), NULL, ''), ('sim', 'near', now(), now(), now(), now(), now(), 'the listing failed')`)
	r := testReconciler(store, "one")
	pass(ctx, t, r)
	require.Zero(t, count(ctx, t, store, "t1"))
	var ledger string
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT ledger::text FROM preset_status").Scan(&ledger))
	require.Contains(t, ledger, "the listing failed")

	exec(`INSERT INTO inventories (provider, site, leased_until, due_at, full_at, complete_at)
		VALUES ('sim', 'far', now(), now(), now(), now())`)
	pass(ctx, t, r)
	require.Equal(t, 2, count(ctx, t, store, "t1"))
}

// Preview has the plan of each preset, and the error of one that has no plan. It writes nothing.
func TestPreview(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 2})
	for _, sql := range []string{
		"UPDATE presets SET instances = 2",
		`UPDATE presets SET schedule = '{"timezone": "No/Where"}' WHERE template_id = md5('t2')::uuid`,
	} {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	r := testReconciler(store, "one")
	err := store.InTx(ctx, database.TxOptions{Label: "preview", Isolation: pgx.RepeatableRead}, func(ctx context.Context, tx pgx.Tx) error {
		preview, err := r.Preview(ctx, tx, nil)
		require.NoError(t, err)
		require.False(t, preview.Now.IsZero())
		require.Len(t, preview.Presets, 2)
		for _, p := range preview.Presets {
			if p.Preset.Template == "t2" {
				require.ErrorContains(t, p.Err, "No/Where")
				require.Zero(t, p.Plan)
				continue
			}
			require.NoError(t, p.Err)
			require.Equal(t, "t1", p.Preset.Template)
			require.Equal(t, p.Preset.ID, p.Plan.PresetID)
			require.Equal(t, 2, p.Plan.Create)
			require.Empty(t, p.Workspaces)
		}
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, count(ctx, t, store, "t1"))
}

// What is left of machines is each provider's own: those that nobody has, less the workspaces that have none yet.
func TestSnapshot_machinesOfEachProvider(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 2})
	for _, sql := range []string{
		`INSERT INTO providers SELECT (jsonb_populate_record(p, jsonb_build_object('name', n, 'reserves', true, 'machines_listed_at', now()))).*
			FROM providers p, unnest('{near,far}'::text[]) n WHERE p.name = (SELECT min(name) FROM providers)`,
		`INSERT INTO provider_machines (provider, machine, state, changed_at)
			SELECT 'near', 'm' || n, 'unused', now() FROM generate_series(1, 5) n
			UNION ALL SELECT 'far', 'm' || n, 'unused', now() FROM generate_series(1, 2) n
			UNION ALL SELECT 'far', 'used', 'used', now()`,
		"UPDATE workspaces SET state = 'provisioning', provider = 'near' WHERE id = (SELECT min(id::text)::uuid FROM workspaces)",
	} {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	rows, err := reconciledb.New(store).SnapshotProviders(ctx, reconciledb.SnapshotProvidersParams{IsFull: true})
	require.NoError(t, err)
	left := map[string]int32{}
	for _, row := range rows {
		if row.Reserves {
			left[row.Name] = row.Available
		}
	}
	require.Equal(t, map[string]int32{"near": 4, "far": 2}, left)
}
