package local_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

func logs(t *testing.T, p provider.Logger, i provider.Instance) string {
	t.Helper()
	r, err := p.Logs(t.Context(), refOf(i), false)
	require.NoError(t, err)
	defer r.Close()
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(content)
}

func TestLogs(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "logs", `{"setup": ["echo", "setting up"],
		"command": ["sh", "-c", "echo running >&2; exec sleep 1000"]}`)
	eventually(t, func() bool { return logs(t, p, i) == "setting up\nrunning\n" })
	_, err := p.Logs(t.Context(), provider.Ref{Name: "unknown"}, true)
	require.ErrorIs(t, err, provider.ErrNotFound)
}

func TestLogsFollowToTheEnd(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "logs", `{"command": ["sh", "-c",
		"echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exec sleep 1000"]}`)
	r, err := p.Logs(t.Context(), refOf(i), true)
	require.NoError(t, err)
	defer r.Close()
	line := make([]byte, 4)
	_, err = io.ReadFull(r, line)
	require.NoError(t, err)
	assert.Equal(t, "one\n", string(line))
	require.NoError(t, os.WriteFile(home(i)+"/go", nil, 0o600))
	_, err = io.ReadFull(r, line)
	require.NoError(t, err)
	assert.Equal(t, "two\n", string(line))
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	rest, err := io.ReadAll(r)
	require.NoError(t, err, "it ends with the workspace")
	assert.Empty(t, rest)
}

func TestLogsFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "logs", `{"command": ["sleep", "1000"]}`)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := p.Logs(ctx, refOf(i), true)
	require.NoError(t, err)
	defer r.Close()
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(r)
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// 25 MB of output make two files of at most 10 MB, of which the end is the end of the output.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "chatty", `{"command": ["sh", "-c",
		"yes 'a line of thirty-two characters.' | head -c 25000000; echo; echo the end; touch said; exec sleep 1000"]}`)
	eventually(t, func() bool { _, err := os.Stat(home(i) + "/said"); return err == nil })
	eventually(t, func() bool { return strings.HasSuffix(logs(t, p, i), "\nthe end\n") })
	for _, name := range []string{"log", "log.1"} {
		info, err := os.Stat(filepath.Join(root, "chatty", name))
		require.NoError(t, err)
		assert.LessOrEqual(t, info.Size(), int64(10<<20), name)
		assert.Positive(t, info.Size(), name)
	}
}
