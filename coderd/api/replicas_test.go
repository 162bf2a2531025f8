package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Passes are stale before the first one, and when the last one over all templates is older than it may be; a replica is
// shown with what it is at.
func TestLastPass(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	auditor := w.as("auditor")
	pass, err := auditor.LastPass(ctx)
	require.NoError(t, err)
	require.True(t, pass.Stale)
	require.Nil(t, pass.FullBeganAt)
	require.EqualValues(t, 60_000, pass.LimitMS)

	w.exec("UPDATE reconcile_fence SET seq = 7, holder = 'a', began_at = now(), full_began_at = now() - interval '20 s'") // far from the limit, so that there is time to ask
	pass, err = auditor.LastPass(ctx)
	require.NoError(t, err)
	require.False(t, pass.Stale)
	require.Equal(t, []any{"a", int64(7)}, []any{pass.Replica, pass.Sequence})
	require.GreaterOrEqual(t, pass.StalenessMS, int64(20_000))
	w.exec("UPDATE reconcile_fence SET full_began_at = now() - interval '61 s'")
	pass, err = auditor.LastPass(ctx)
	require.NoError(t, err)
	require.True(t, pass.Stale)
	_, err = w.as("member").LastPass(ctx)
	require.ErrorContains(t, err, "cannot view replicas")

	w.exec(`INSERT INTO replicas (name, instance_id, version, address, started_at, heartbeat_at)
		VALUES ('a', gen_random_uuid(), 'v', '', now(), now()), ('b', gen_random_uuid(), 'v', '', now(), now())`)
	id := w.workspace("quickstart", "provisioning", "prewarm").ID
	w.exec(`INSERT INTO jobs (id, kind, state, workspace_id, incarnation, provider, attempt, failures, due_at, leased_by,
			last_error, priority, created_at)
		VALUES (gen_random_uuid(), 'create', 'running', $1, 1, 'roomy', 1, 0, now(), 'a', '', 0, now())`, id)
	replicas, err := auditor.Replicas(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"create": 1}, replicas[0].Work)
	require.Empty(t, replicas[1].Work)
	providers, err := auditor.Providers(ctx)
	require.NoError(t, err)
	for _, p := range providers {
		if p.Name == "roomy" {
			require.Equal(t, []int{0, 1, 1}, []int{p.Claimed, p.Unclaimed, p.Creating})
			require.Equal(t, []any{0, 16, "1m0s"}, []any{p.Limits.Maximum, p.Limits.CreatesInFlight, p.Limits.InventoryEvery})
		}
	}
}

// The log is narrowed by time, and to what people did.
func TestAudit_narrowed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	w.exec(`INSERT INTO audit_log (at, actor_id, action, target_type, target_id)
		SELECT '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 h', u.id, 'x.' || n, 'x', 'x'
		FROM generate_series(1, 3) n, users u WHERE u.name = CASE n WHEN 2 THEN 'prewarm' ELSE 'member' END`)
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	list := func(filter sdk.AuditFilter) []string {
		t.Helper()
		filter.Target = "x"
		page, err := w.as("auditor").Audit(ctx, filter)
		require.NoError(t, err)
		actions := []string{}
		for _, e := range page.Entries {
			actions = append(actions, e.Action)
		}
		return actions
	}
	require.Equal(t, []string{"x.3", "x.2", "x.1"}, list(sdk.AuditFilter{}))
	require.Equal(t, []string{"x.3", "x.1"}, list(sdk.AuditFilter{People: true}))
	require.Equal(t, []string{"x.3", "x.2"}, list(sdk.AuditFilter{Since: at(2)}))
	require.Equal(t, []string{"x.2", "x.1"}, list(sdk.AuditFilter{Until: at(3)}), "the end is not part of it")
	require.Equal(t, []string{"x.2"}, list(sdk.AuditFilter{Since: at(2), Until: at(3)}))
}
