package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// TestStopAndStart: a stopped workspace has no process, and keeps its files and its port; started again, by another server,
// it runs its command but not its setup.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "w", `{"setup": ["sh", "-c", "echo setup >> runs; echo mine > file"],
		"command": ["sh", "-c", "echo command >> runs; (sleep 300 & wait)"], "port": true, "stop_grace": "200ms"}`)
	runs := func() string {
		content, _ := os.ReadFile(filepath.Join(home(i), "runs"))
		return strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", " ")
	}
	ready := func() bool {
		state, err := p.Ready(t.Context(), refOf(i))
		require.NoError(t, err)
		require.False(t, state.Failed, state.Detail)
		return state.Ready
	}
	eventually(t, func() bool { return ready() && runs() == "setup command" })

	require.NoError(t, p.Stop(t.Context(), refOf(i)))
	require.Empty(t, processesOf(root))
	_, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{Command: []string{"true"}})
	require.ErrorContains(t, err, "not running")

	other := open(t, root)
	require.NoError(t, other.Start(t.Context(), refOf(i)))
	eventually(t, func() bool { return ready() && runs() == "setup command command" })
	content, err := os.ReadFile(filepath.Join(home(i), "file"))
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(content))
	again, err := p.Get(t.Context(), refOf(i))
	require.NoError(t, err)
	require.Equal(t, i, again)
}

// TestStopIsNotForAnother: a reference to another workspace of that name stops and starts nothing.
func TestStopIsNotForAnother(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "w", command("0s", "sleep 300"))
	another := refOf(i)
	another.WorkspaceID = installation
	require.ErrorIs(t, p.Stop(t.Context(), another), provider.ErrNotFound)
	require.ErrorIs(t, p.Start(t.Context(), another), provider.ErrNotFound)
	again, err := p.Get(t.Context(), refOf(i))
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, again.Status)
}
