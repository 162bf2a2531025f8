package workspaces_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// A workspace is recorded as gone once, and as seen again once. Only its current incarnation counts, and only a listing that
// began later. Another workspace of the same incarnation stays as it is.
func TestGone_andSeenAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	for _, s := range situations {
		if s.name != "claimed" && s.name != "quarantined" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			s.incarnation = 3
			b.put(s, false, false)
			other := uuid.New()
			b.exec(`INSERT INTO workspaces SELECT (jsonb_populate_record(w, jsonb_build_object('id', $1::uuid, 'name', 'other'))).*
				FROM workspaces w`, other)
			gone := func(id uuid.UUID) (is bool) {
				require.NoError(t, b.Store.Pool.QueryRow(ctx, "SELECT gone_at IS NOT NULL FROM workspaces WHERE id = $1", id).Scan(&is))
				return is
			}
			type record func(context.Context, uuid.UUID, int32, time.Time) (workspaces.Moved, error)
			id, incarnation := b.ws.WorkspaceID, b.ws.Incarnation
			before, after := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
			refused := func(do record, id uuid.UUID, incarnation int32, seenAt time.Time, why string) {
				t.Helper()
				was := b.dump()
				_, err := do(ctx, id, incarnation, seenAt)
				require.ErrorIs(t, err, workspaces.ErrLost, why)
				require.Equal(t, was, b.dump(), why)
			}
			refusals := func(do record) {
				t.Helper()
				refused(do, id, incarnation-1, after, "the incarnation before")
				refused(do, id, incarnation+1, after, "the incarnation after")
				refused(do, uuid.New(), incarnation, after, "no workspace")
				refused(do, id, incarnation, before, "a listing that began before")
			}

			refusals(b.writer.KnownGone)
			moved, err := b.writer.KnownGone(ctx, id, incarnation, after)
			require.NoError(t, err)
			require.Equal(t, id, moved.WorkspaceID)
			require.True(t, gone(id))
			require.False(t, gone(other))
			refused(b.writer.KnownGone, id, incarnation, after, "it is known already")

			refused(b.writer.SeenAgain, other, incarnation, after, "the other is not gone")
			b.exec("UPDATE workspaces SET gone_at = now()")
			refusals(b.writer.SeenAgain)
			moved, err = b.writer.SeenAgain(ctx, id, incarnation, after)
			require.NoError(t, err)
			require.Equal(t, id, moved.WorkspaceID)
			require.False(t, gone(id))
			require.True(t, gone(other))
			refused(b.writer.SeenAgain, id, incarnation, after, "it is seen already")
		})
	}
}
