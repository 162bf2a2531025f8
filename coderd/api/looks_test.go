package api

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Some of a user's looks go on at once, and the next waits for one of them; others do not wait.
func TestLooks(t *testing.T) {
	t.Parallel()
	turns, user := lookTurns(), uuid.New()
	var done []func()
	for range mostLooks {
		end, err := turns.Take(t.Context(), user)
		require.NoError(t, err)
		done = append(done, end)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := turns.Take(gone, user)
	require.ErrorIs(t, err, context.Canceled)
	other, err := turns.Take(t.Context(), uuid.New())
	require.NoError(t, err)
	other()
	for _, end := range done {
		end()
	}
	end, err := turns.Take(t.Context(), user)
	require.NoError(t, err)
	end()
}

// What only its user can enter is not looked for again for a moment, unless a claim has ended or its tunnel has failed meanwhile.
func TestLooks_again(t *testing.T) {
	t.Parallel()
	var l looks
	by, now := kept{name: "prebuild-a"}, time.Now()
	row := viewsdb.EntranceRow{Name: "prebuild-a", State: database.WorkspaceStateClaimed, TunnelID: uuid.New()}
	has := func(at time.Time, ends uint64) bool {
		_, ok := l.again(by, found{at: at, ends: ends})
		return ok
	}
	require.False(t, has(now, 1))
	for _, other := range []viewsdb.EntranceRow{
		{Name: row.Name, State: database.WorkspaceStateReady, TunnelID: row.TunnelID},
		{Name: row.Name, State: row.State},
		{Name: row.Name, State: row.State, TunnelID: row.TunnelID, Enter: []string{"template-admin"}},
		{Name: row.Name, State: row.State, TunnelID: row.TunnelID, PublicPorts: []int32{3000}},
	} {
		l.keep(by, found{row: other, at: now, ends: 1})
		require.False(t, has(now, 1))
	}
	l.keep(by, found{row: row, at: now, ends: 1})
	require.True(t, has(now.Add(keptFor-1), 1))
	require.False(t, has(now.Add(keptFor), 1))
	require.False(t, has(now, 2))
	_, ok := l.again(kept{name: "prebuild-a", organization: uuid.NullUUID{Valid: true}}, found{at: now, ends: 1})
	require.False(t, ok, "in another organization")
	l.forget()
	require.False(t, has(now, 1))
}
