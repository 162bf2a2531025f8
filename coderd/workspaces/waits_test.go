package workspaces_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// Each event that cancels a job may have to wait for the workspace's row, while another replica puts another job in the
// place of the one that was there. What it cancels then is the job that is there after the wait.
func TestTransitions_jobReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	for _, e := range events {
		for _, s := range situations {
			if e.want[s.name].oldJob != "cancelled" || slices.Contains([]database.WorkspaceState{"provisioning", "deleting"}, s.state) ||
				e.name == "claimed, out of standby" {
				continue // creates and deletes are tried again in the same row; a claim takes another rather than wait
			}
			t.Run(e.name+" when "+s.name, func(t *testing.T) {
				b.put(s, e.keeps, e.reuses)
				tx, err := b.Store.Pool.Begin(ctx)
				require.NoError(t, err)
				defer func() { _ = tx.Rollback(ctx) }()
				_, err = tx.Exec(ctx, `UPDATE workspaces SET fault = fault WHERE id = $1`, b.ws.WorkspaceID)
				require.NoError(t, err)

				done := make(chan error, 1)
				go func() { done <- e.do(ctx, b, b.ws) }()
				coderdtest.Eventually(t, "the event waits for the row", func() bool {
					var waits bool // not in tx, which would go on seeing the connections of its first look only
					require.NoError(t, b.Store.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
						WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits))
					return waits
				})

				replacement := uuid.New()
				_, err = tx.Exec(ctx, `WITH old AS (
						UPDATE jobs SET state = 'done', finished_at = now() WHERE id = $1 RETURNING jobs.*)
					INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, attempt, due_at, leased_by, created_at)
					SELECT $2, workspace_id, incarnation, kind, provider, 'running', 1, now() + interval '7 minutes', 'other', now() FROM old`,
					b.ws.JobID, replacement)
				require.NoError(t, err)
				require.NoError(t, tx.Commit(ctx))
				require.NoError(t, <-done)

				b.ws = workspaces.Lease{JobID: replacement, WorkspaceID: b.ws.WorkspaceID, Incarnation: b.ws.Incarnation}
				got := b.look()
				require.Equal(t, string(e.want[s.name].to), got.State)
				require.Equal(t, "cancelled", got.OldJob)
				if e.want[s.name].nextJob == "" {
					return
				}
				var waits bool // for the end of the lease of what was cancelled, whose provider call may still be running
				require.NoError(t, b.Store.Pool.QueryRow(ctx, `SELECT next.due_at >= old.due_at FROM jobs old JOIN jobs next
					ON next.workspace_id = old.workspace_id AND next.state = 'pending' WHERE old.id = $1`, replacement).Scan(&waits))
				require.True(t, waits)
			})
		}
	}
}
