package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// verifyRecords holds the records of the visitors against what there is (I7, I2): what they were told is theirs is
// claimed by them and untouched, and what they gave back is gone.
func verifyRecords(t *testing.T, client *sdk.Client, all []*visitor) {
	t.Helper()
	for _, v := range all {
		for _, h := range v.holds {
			w, err := client.Workspace(context.Background(), h.id.String())
			require.NoError(t, err)
			assert.Equal(t, "claimed", w.State, "workspace %s", h.name)
			assert.Equal(t, &h.claim, w.ClaimID, "workspace %s", h.name)
			h.check(t)
		}
		for _, h := range v.released {
			w, err := client.Workspace(context.Background(), h.id.String())
			require.NoError(t, err)
			assert.Equal(t, "deleted", w.State, "released workspace %s", h.name)
			assert.False(t, h.processes.Main.alive(), "command of released workspace %s", h.name)
			assert.NoDirExists(t, filepath.Dir(h.home), "directory of released workspace %s", h.name)
		}
	}
}

// verifyClaims finds no claim in the database that no visitor knows of, and none that two workspaces or visitors share.
func verifyClaims(t *testing.T, store *database.Store, all []*visitor) {
	t.Helper()
	known := map[uuid.UUID]string{}
	for _, v := range all {
		for _, h := range v.holds {
			known[h.claim] = "bound"
		}
		for _, h := range v.released {
			known[h.claim] = "released"
		}
	}
	rows, err := store.Pool.Query(context.Background(),
		"SELECT id, state::text FROM claims WHERE state NOT IN ('missed')")
	require.NoError(t, err)
	defer rows.Close()
	stored := map[uuid.UUID]string{}
	for rows.Next() {
		var id uuid.UUID
		var state string
		require.NoError(t, rows.Scan(&id, &state))
		stored[id] = state
	}
	require.NoError(t, rows.Err())
	assert.Equal(t, known, stored, "claims, as the visitors and the database have them")
}

// verifyHistory looks for what must never have happened, at any commit.
func verifyHistory(t *testing.T, store *database.Store) {
	t.Helper()
	for what, query := range map[string]string{
		"I1: an incarnation was claimed twice": `SELECT count(*) FROM (SELECT FROM workspace_history
			WHERE to_state = 'claimed' GROUP BY workspace_id, incarnation HAVING count(*) > 1) twice`,
		"I2: a claimed workspace went without a release": `SELECT count(*) FROM workspace_history h
			WHERE h.from_state = 'claimed' AND NOT EXISTS (SELECT FROM claims c WHERE c.workspace_id = h.workspace_id
			AND c.incarnation = h.incarnation AND c.state = 'released')`,
		"a workspace went from a state that it was not in": `SELECT count(*) FROM (SELECT from_state,
			lag(to_state) OVER (PARTITION BY workspace_id ORDER BY id) AS was FROM workspace_history) h
			WHERE h.from_state IS DISTINCT FROM h.was`,
		"a transition was made by an attempt that was not the job's last": `SELECT count(*) FROM workspace_history h
			JOIN jobs j ON j.id = h.job_id WHERE h.attempt <> j.attempt`,
	} {
		assert.Zero(t, number(t, store, query), what)
	}
	verifyJobs(t, store)
}

// verifyJobs: in-flight work is one job, not a state: nothing can be stuck, and nothing is worked on twice.
func verifyJobs(t *testing.T, store *database.Store) {
	t.Helper()
	for what, query := range map[string]string{
		"a workspace in flight has no job, or several": `SELECT count(*) FROM workspaces w
			WHERE w.state IN ('provisioning', 'starting', 'draining', 'deleting') AND 1 <> (SELECT count(*) FROM jobs j
			WHERE j.workspace_id = w.id AND j.incarnation = w.incarnation AND j.state IN ('pending', 'running'))`,
		"a workspace at rest has a job": `SELECT count(*) FROM workspaces w
			JOIN jobs j ON j.workspace_id = w.id AND j.state IN ('pending', 'running')
			WHERE w.state NOT IN ('provisioning', 'starting', 'draining', 'deleting')`,
	} {
		assert.Zero(t, number(t, store, query), what)
	}
}

// number asks the database, until it is there to answer.
func number(t testing.TB, store *database.Store, query string, args ...any) int {
	t.Helper()
	var n int
	var err error
	eventually(t, "the database answers", func() bool {
		err = store.Pool.QueryRow(context.Background(), query, args...).Scan(&n)
		return !database.IsConnection(err)
	})
	require.NoError(t, err, query)
	return n
}

// verifyMachine: the processes and directories below root are those of live workspaces, and of each there is one (I4).
func verifyMachine(t *testing.T, client *sdk.Client, root string) {
	t.Helper()
	assert.Empty(t, machineFaults(t, client, root), "what this machine has and the database says")
}

// machineFaults lists what is there and should not be, and the reverse.
func machineFaults(t *testing.T, client *sdk.Client, root string) (faults []string) {
	t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	supervisors, live := map[string]process{}, map[string]bool{}
	for filter := (sdk.WorkspaceFilter{Limit: 200}); ; {
		page, err := client.Workspaces(context.Background(), filter)
		require.NoError(t, err)
		for _, w := range page.Workspaces {
			if w.State == "deleted" {
				continue
			}
			state, err := stateOf(w.Environment["PREWARM_DIR"])
			if err != nil || !state.Supervisor.alive() || !state.Main.alive() {
				fault("workspace %s is %s and not running: %v", w.Name, w.State, err)
			}
			supervisors[w.ID.String()], live[w.Name] = state.Supervisor, true
		}
		if filter.After = page.Next; filter.After == "" {
			break
		}
	}
	for _, p := range workspaceProcesses(t, root) {
		supervisor, ok := supervisors[p.workspace]
		if !ok || !p.descendsFrom(supervisor) {
			fault("process %d is of workspace %s, but not of its supervisor", p.PID, p.workspace)
		}
	}
	for _, name := range namesIn(t, root) {
		if !live[name] {
			fault("directory %s is of no live workspace", name)
		}
	}
	for _, name := range namesIn(t, filepath.Join(root, ".prewarm", "aside")) {
		fault("directory %s is half made or half deleted", name)
	}
	return faults
}

// namesIn lists a directory, but for the provider's own; one that is not there is empty.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	names := []string{}
	for _, e := range entries {
		if e.Name() != ".prewarm" {
			names = append(names, e.Name())
		}
	}
	return names
}
