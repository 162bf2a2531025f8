package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// fates of workspaces, as their history tells them: 'there' are still prebuilds; 'claimed', 'removed' (by a person) and
// 'failed' left their pool so; the others were let go by a pass, by the rule that they are named after.
func fates(t testing.TB, store *database.Store) map[string]int {
	t.Helper()
	rows, err := store.Pool.Query(context.Background(), `
		SELECT coalesce(e.fate, 'there'), count(*)
		FROM workspace_history born
		LEFT JOIN LATERAL (
		  SELECT CASE WHEN h.to_state = 'claimed' THEN 'claimed'
		              WHEN h.actor_id <> '00000000-0000-4000-8000-000000000002' THEN 'removed'
		              WHEN h.job_id IS NOT NULL THEN 'failed'
		              WHEN h.reason ~ '^[A-Z][0-9]+: ' THEN split_part(h.reason, ':', 1)
		              ELSE 'unexplained' END AS fate
		  FROM workspace_history h
		  WHERE h.workspace_id = born.workspace_id AND h.to_state IN ('claimed', 'draining', 'deleting', 'deleted')
		  ORDER BY h.id LIMIT 1
		) e ON true
		WHERE born.from_state IS NULL
		GROUP BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var fate string
		var n int
		require.NoError(t, rows.Scan(&fate, &n))
		counts[fate] = n
	}
	require.NoError(t, rows.Err())
	return counts
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// checkHistory: every workspace has one unbroken line of history, from nothing to the state that it is in; a claimed one
// left that state only by a person's word (I2); and the rows are as many as the line begins.
func checkHistory(t testing.TB, store *database.Store) {
	t.Helper()
	for what, query := range map[string]string{
		"breaks in the history of a workspace": `SELECT count(*) FROM (
			SELECT from_state, lag(to_state) OVER (PARTITION BY workspace_id ORDER BY id) AS before FROM workspace_history
			) h WHERE from_state IS DISTINCT FROM before`,
		"workspaces whose history ends elsewhere": `SELECT count(*) FROM workspaces w WHERE w.state IS DISTINCT FROM
			(SELECT h.to_state FROM workspace_history h WHERE h.workspace_id = w.id ORDER BY h.id DESC LIMIT 1)`,
		"workspaces created more than once, or never": `SELECT count(*) FROM workspaces w WHERE 1 <>
			(SELECT count(*) FROM workspace_history h WHERE h.workspace_id = w.id AND h.from_state IS NULL)`,
		"claimed workspaces that were taken away (I2)": `SELECT count(*) FROM workspace_history
			WHERE from_state = 'claimed' AND actor_id = '00000000-0000-4000-8000-000000000002'`,
		"claims that are still bound to what is gone": `SELECT count(*) FROM claims c JOIN workspaces w ON w.id = c.workspace_id
			WHERE (c.state = 'bound') <> (w.state = 'claimed' AND w.claim_id = c.id)`,
	} {
		var n int
		require.NoError(t, store.Pool.QueryRow(context.Background(), query).Scan(&n))
		require.Zero(t, n, what)
	}
}

// checkClouds: each live workspace has its one resource, there are no others, and none ever had two at a time.
func checkClouds(t testing.TB, store *database.Store, roots ...string) {
	t.Helper()
	resources := 0
	for _, root := range roots {
		cloud, err := sim.New(sim.Options{Root: root})
		require.NoError(t, err)
		twice, err := cloud.Duplicates()
		require.NoError(t, err)
		require.Empty(t, twice, "workspaces that had several resources at a time")
		all, err := cloud.All()
		require.NoError(t, err)
		for _, r := range all {
			var live bool
			require.NoError(t, store.Pool.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM workspaces
				WHERE id = $1 AND name = $2 AND provider_id = $3 AND state <> 'deleted')`,
				r.Tags.WorkspaceID, r.Name, r.ProviderID).Scan(&live))
			require.True(t, live, "resource %s of no live workspace", r.Name)
		}
		resources += len(all)
	}
	var live int
	require.NoError(t, store.Pool.QueryRow(context.Background(),
		"SELECT count(*) FROM workspaces WHERE state <> 'deleted'").Scan(&live))
	require.Equal(t, live, resources, "one resource per live workspace")
}
