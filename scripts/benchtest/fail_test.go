package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAttempt(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	cleaned, went := false, false
	err := attempt(func() {
		defer func() { cleaned = true }()
		within("inside", func() { must(broken) })
		went = true
	})
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "inside: broken")
	require.True(t, cleaned)
	require.False(t, went)
	require.NoError(t, attempt(func() { must(nil) }))
	require.PanicsWithValue(t, "a bug", func() { _ = attempt(func() { panic("a bug") }) })
}

func TestLoop(t *testing.T) {
	t.Parallel()
	b := &bench{cluster: &cluster{}}
	left := 3
	work := []func(){func() {
		if left == 0 {
			must(errMiss)
		}
		left--
	}}
	s := b.loop(work, 0, time.Minute) // a miss ends the window
	require.Equal(t, 3, s.n)
	require.Less(t, s.lasted, time.Minute)
	require.ErrorContains(t, attempt(func() { b.loop(work, 0, time.Minute) }), "every claim was a miss")
	require.ErrorIs(t, attempt(func() { b.loop(work, 10_000, time.Second) }), errMiss, "what was due was left undone")
}
