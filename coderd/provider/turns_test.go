package provider

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Some turns of a key go on at once, and the next waits for one of them; other keys do not wait, and nothing is remembered after it.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name, turns := range map[string]*Turns{"one": {}, "three": {AtOnce: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done []func()
			for range max(turns.AtOnce, 1) {
				end, err := turns.Take(t.Context(), "a")
				require.NoError(t, err)
				done = append(done, end)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := turns.Take(gone, "a")
			require.ErrorIs(t, err, context.Canceled)
			other, err := turns.Take(t.Context(), "b")
			require.NoError(t, err)
			other()
			next := make(chan error, 1)
			go func() {
				end, err := turns.Take(t.Context(), "a")
				if err == nil {
					end()
				}
				next <- err
			}()
			for _, end := range done {
				end()
			}
			require.NoError(t, <-next)
			require.Empty(t, turns.keys)
		})
	}
}
