package api

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Some of a user's looks go on at once, and the next waits for one of them; others do not wait, and nothing is remembered after it.
func TestLooks(t *testing.T) {
	t.Parallel()
	var l looks
	user := uuid.New()
	var done []func()
	for range mostLooks {
		end, err := l.begin(t.Context(), user)
		require.NoError(t, err)
		done = append(done, end)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.begin(gone, user)
	require.ErrorIs(t, err, context.Canceled)
	other, err := l.begin(t.Context(), uuid.New())
	require.NoError(t, err)
	other()
	next := make(chan error, 1)
	go func() {
		end, err := l.begin(t.Context(), user)
		if err == nil {
			end()
		}
		next <- err
	}()
	for _, end := range done {
		end()
	}
	require.NoError(t, <-next)
	require.Empty(t, l.of)
}
