package workspaces_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// The lease of a claim ends once it is over, and not before: a claim without one, or that was renewed, keeps its workspace.
func TestEndLease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(situation{state: database.WorkspaceStateClaimed, providerID: "p", incarnation: 2}, false, false)
	end := func(id uuid.UUID, incarnation int32) error {
		_, err := b.writer.EndLease(t.Context(), id, incarnation, "its lease is over")
		return err
	}
	id := b.ws.WorkspaceID
	for _, lease := range []string{"NULL", "now() + interval '1 hour'"} {
		b.exec("UPDATE claims SET lease_until = " + lease)
		was := b.dump()
		require.ErrorIs(t, end(id, 2), workspaces.ErrRenewed, lease)
		require.Equal(t, was, b.dump())
	}
	b.exec("UPDATE claims SET lease_until = now() - interval '1 second'")
	was := b.dump()
	require.Error(t, end(id, 1), "the incarnation before")
	require.Error(t, end(uuid.New(), 2), "no workspace")
	require.Equal(t, was, b.dump())
	require.NoError(t, end(id, 2))
	require.Equal(t, "draining", b.look().State)
	require.Equal(t, []string{"released"}, b.look().Claims)
	require.Error(t, end(id, 2), "it has ended")
}
