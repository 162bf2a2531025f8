package claim_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/quartz"
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
	w, worker := still(t, 8)
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
		{"one fails, one is released", []string{"claim-failed", "released"}, 1, `^the claim was released before on_claim had ended in workspace prebuild-\w+$`},
		{"none is left", []string{"claim-failed"}, 1, `^on_claim failed \(exit status 7\) in workspace prebuild-\w+, and then .+`},
	} {
		before := w.Count(t, "a", "claimed", "ready")
		next, gone := c.agents, len(c.agents)
		if c.reason == "" {
			gone--
		}
		r.Claims.HandOver = func(ctx context.Context, ids ...uuid.UUID) error {
			said := next[0]
			next = next[1:]
			if said == "released" {
				_, err := r.Writer.Release(ctx, r.Writer.System("by hand"), ids[0])
				return err
			}
			exec(t, w, `INSERT INTO agents (workspace_id, incarnation, attempt, key_id, heartbeat_timeout_s, status, message, created_at,
				  claim_id, claim_seen_at, claim_ready_at)
				SELECT w.id, w.incarnation, 1, k.id, 60, $2::text::agent_status, 'exit status 7', now(), w.claim_id, now(), now()
				FROM workspaces w, signing_keys k WHERE w.id = ANY ($1)`, ids, said)
			return nil
		}
		res, err := w.Claim(t, r, "a", claim.Request{Key: c.key, WaitReady: time.Minute})
		require.NoError(t, err, c.key)
		require.Empty(t, next, c.key)
		require.Equal(t, c.replaced, res.Replaced, c.key)
		require.Equal(t, before-gone, w.Count(t, "a", "claimed", "ready"), "%s: none in which it failed is kept", c.key)
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

// A workspace of which it cannot be read how far it is, is not taken to be ready: it is an error, and it is given back.
func TestReady_withoutDatabase(t *testing.T) {
	t.Parallel()
	w, r := still(t, 1)
	clock, off := quartz.NewMock(t), new(atomic.Bool)
	r.Claims.Clock = clock
	r.Claims.Store = over(cut{r.Store.Pool, off})
	r.Claims.HandOver = func(context.Context, ...uuid.UUID) error {
		off.Store(true)
		return nil
	}
	_, err := w.Claim(t, r, "a", claim.Request{WaitReady: time.Minute})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, 1, w.Count(t, "a", "claimed"))
	off.Store(false)
	givenBack(t, w, clock)
}
