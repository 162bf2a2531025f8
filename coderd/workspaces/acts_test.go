package workspaces_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// A workspace that was never made is created by a new job, which goes on counting the attempts of the creates before: what an earlier
// one still says of it is refused. Attempts of other jobs, and at other workspaces, are no matter.
func TestRetry_attempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(situation{state: "quarantined"}, true, false)
	b.more(1, "quarantined", "")
	b.exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, attempt, due_at, created_at, finished_at)
		SELECT gen_random_uuid(), w.id, 1, x.kind::job_kind, 'sim', 'failed', x.attempt, now(), now(), now()
		FROM workspaces w JOIN (VALUES ('create', 2, true), ('create', 4, true), ('probe', 6, true), ('create', 8, false)) x (kind, attempt, its)
		  ON x.its = (w.id = $1)`, b.ws.WorkspaceID)
	_, err := b.writer.Retry(t.Context(), b.person(), b.ws.WorkspaceID)
	require.NoError(t, err)
	var attempt int
	require.NoError(t, b.Store.Pool.QueryRow(t.Context(), `SELECT attempt FROM jobs
		WHERE state = 'pending' AND kind = 'create' AND workspace_id = $1`, b.ws.WorkspaceID).Scan(&attempt))
	require.Equal(t, 4, attempt)
}

// Who deletes by force what goes already is in the audit log of that workspace, and of no other.
func TestForce_audit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(situation{state: "deleting", job: "delete", vain: true, providerID: "p"}, false, false)
	b.more(1, "draining", "")
	_, err := b.writer.Delete(t.Context(), b.person(), b.ws.WorkspaceID, true)
	require.NoError(t, err)
	var action, target, name, reason, source string
	var actor uuid.UUID
	require.NoError(t, b.Store.Pool.QueryRow(t.Context(), "SELECT action, target_id, target_name, reason, source, actor_id FROM audit_log").
		Scan(&action, &target, &name, &reason, &source, &actor))
	id := b.ws.WorkspaceID.String()
	require.Equal(t, []string{"workspace.force-delete", id, "w-" + id, "by hand", "test"}, []string{action, target, name, reason, source})
	require.Equal(t, b.Owner, actor)
}

// Where a provider is deleted by force, so is all that is on its way out there: no backoff holds it up. All else stays as it is.
func TestForceAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, s := range situations {
		b.put(s, false, false)
		before := b.dump()
		require.NoError(t, workspaces.ForceAt(t.Context(), b.Store, "another"))
		require.Equal(t, before, b.dump(), s.name)
		require.NoError(t, workspaces.ForceAt(t.Context(), b.Store, "sim"), s.name)
		if s.state != "draining" && s.state != "deleting" {
			require.Equal(t, before, b.dump(), s.name)
			continue
		}
		var forced bool
		require.NoError(t, b.Store.Pool.QueryRow(t.Context(), `SELECT force AND state = 'pending' AND leased_by = '' AND due_at <= now()
			FROM jobs`).Scan(&forced))
		require.True(t, forced, s.name)
	}
}

// What was gone, and comes back into its pool, takes its place of its provider's maximum: passes have one less to spend there until they
// count again. What was there all the while has its place already.
func TestReturn_takesPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("INSERT INTO providers (name, kind, updated_at) VALUES ('another', 'sim', now())")
	for _, c := range []struct{ gone, left, want int }{{0, 3, 3}, {1, 3, 2}, {1, 0, 0}} {
		b.put(situation{state: "quarantined", providerID: "p"}, true, false)
		b.exec("UPDATE workspaces SET gone_at = now() WHERE $1 = 1", c.gone)
		b.exec("DELETE FROM headroom")
		b.exec("INSERT INTO headroom (provider, maximum, instances) VALUES ('sim', 9, $1), ('another', 9, 5)", c.left)
		_, err := b.writer.Retry(t.Context(), b.person(), b.ws.WorkspaceID)
		require.NoError(t, err)
		var left, elsewhere int
		require.NoError(t, b.Store.Pool.QueryRow(t.Context(), `SELECT h.instances, o.instances FROM headroom h, headroom o
			WHERE h.provider = 'sim' AND o.provider = 'another'`).Scan(&left, &elsewhere))
		require.Equal(t, c.want, left)
		require.Equal(t, 5, elsewhere)
	}
}
