package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/database"
)

// Where on_claim fails, the workspace is given up and another takes its place, also under the key. After a few, and where none is left,
// it is a miss that says why.
func TestReady_onClaim(t *testing.T) {
	t.Parallel()
	w, worker := still(t, 6)
	worker.Stop()
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true})
	exec(t, w, "UPDATE template_versions SET agent = '{}'")
	exec(t, w, "INSERT INTO signing_keys (id, secret, created_at) VALUES ($1, decode(repeat('00', 32), 'hex'), now())", uuid.New())
	for _, c := range []struct {
		key      string
		agents   []string // what they say of on_claim, one after the other
		replaced int
		reason   string // of a miss
	}{
		{"one fails", []string{"claim-failed", "claim-ready"}, 1, ""},
		{"all fail", []string{"claim-failed", "claim-failed", "claim-failed"}, 3, `^on_claim failed \(exit status 7\) in workspace prebuild-\w+$`},
		{"none is left", []string{"claim-failed"}, 1, `^on_claim failed \(exit status 7\) in workspace prebuild-\w+, and then .+`},
	} {
		before := w.Count(t, "a", "claimed", "ready")
		next := c.agents
		r.Claims.HandOver = func(_ context.Context, ids ...uuid.UUID) error {
			exec(t, w, `INSERT INTO agents (workspace_id, incarnation, attempt, key_id, heartbeat_timeout_s, status, message, created_at,
				  claim_id, claim_seen_at, claim_ready_at)
				SELECT w.id, w.incarnation, 1, k.id, 60, $2::text::agent_status, 'exit status 7', now(), w.claim_id, now(), now()
				FROM workspaces w, signing_keys k WHERE w.id = ANY ($1)`, ids, next[0])
			next = next[1:]
			return nil
		}
		res, err := w.Claim(t, r, "a", claim.Request{Key: c.key, WaitReady: time.Minute})
		require.NoError(t, err, c.key)
		require.Empty(t, next, c.key)
		require.Equal(t, c.replaced, res.Replaced, c.key)
		require.Equal(t, before-c.replaced, w.Count(t, "a", "claimed", "ready"), "%s: none in which it failed is kept", c.key)
		if c.reason != "" {
			require.Equal(t, database.ClaimOutcomeMiss, res.Outcome, c.key)
			require.Nil(t, res.Workspace, c.key)
			require.Regexp(t, c.reason, res.Reason)
			continue
		}
		require.NotNil(t, res.Workspace, res.Reason)
		again, err := w.Claim(t, r, "a", claim.Request{Key: c.key})
		require.NoError(t, err)
		require.Equal(t, res.Workspace.ID, again.Workspace.ID, "the key is that of the last")
	}
}
