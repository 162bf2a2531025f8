package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// I5: at each step of a workspace's life, what a worker records whose lease was taken over is lost, while the workspace
// still is in the state that it found and the job still runs. The one who has the lease records the same thing at once.
func TestLateWorker_changesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true})
	coderdtest.Eventually(t, "planned", func() bool { return w.Count(t, "a", "provisioning") == 1 })
	facts := workspaces.Facts{ProviderID: "p", Addresses: json.RawMessage("[]"), Environment: json.RawMessage("{}")}

	for _, step := range []struct {
		kind   database.JobKind
		record func(workspaces.Lease) error
		to     string
		then   func(id uuid.UUID) error // what a person does before the next step
	}{
		{kind: database.JobKindCreate, to: "starting", record: func(l workspaces.Lease) error {
			_, err := r.Writer.Created(ctx, l, facts)
			return err
		}},
		{kind: database.JobKindProbe, to: "ready", record: func(l workspaces.Lease) error {
			_, _, err := r.Writer.Ready(ctx, l, facts, "ready")
			return err
		}, then: func(id uuid.UUID) error {
			_, err := r.Writer.Delete(ctx, workspaces.Actor{UserID: w.Owner, Reason: "test"}, id, false)
			return err
		}},
		{kind: database.JobKindDrain, to: "deleting", record: func(l workspaces.Lease) error {
			_, err := r.Writer.Drained(ctx, l, "never registered")
			return err
		}},
		{kind: database.JobKindDelete, to: "deleted", record: func(l workspaces.Lease) error {
			_, err := r.Writer.Gone(ctx, l, "gone", "")
			return err
		}},
	} {
		late := takeJob(ctx, t, r.Store, step.kind)
		current := takeJob(ctx, t, r.Store, step.kind)
		require.Equal(t, late.JobID, current.JobID)

		require.ErrorIs(t, step.record(late), workspaces.ErrLost, "I5: a late %s was recorded", step.kind)
		_, _, err := r.Writer.Failed(ctx, late, workspaces.Failure{Fault: "late"})
		require.ErrorIs(t, err, workspaces.ErrLost, "I5: a late failure of %s was recorded", step.kind)
		require.Zero(t, w.Count(t, "a", step.to))
		require.NoError(t, step.record(current))
		require.Equal(t, 1, w.Count(t, "a", step.to))
		if step.then != nil {
			require.NoError(t, step.then(current.WorkspaceID))
		}
	}
}

// takeJob leases the only open job, whoever has it now.
func takeJob(ctx context.Context, t *testing.T, store *database.Store, kind database.JobKind) workspaces.Lease {
	t.Helper()
	var l workspaces.Lease
	require.NoError(t, store.Pool.QueryRow(ctx, `UPDATE jobs SET state = 'running', attempt = attempt + 1,
		leased_by = 'test', due_at = prewarm_now() + interval '1 hour'
		WHERE kind = $1 AND state IN ('pending', 'running')
		RETURNING id, attempt, workspace_id, incarnation`, kind).Scan(&l.JobID, &l.Attempt, &l.WorkspaceID, &l.Incarnation))
	return l
}
