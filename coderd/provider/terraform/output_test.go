package terraform_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
)

// worked has a worker at all workspaces for as long as it says so: these have no job.
type worked struct {
	stored
	works *atomic.Bool
}

func (w worked) WorkIsDue(context.Context, uuid.UUID) (bool, error) { return w.works.Load(), nil }

// What Terraform says of a workspace is its output: while it is made, while it is there, of what failed, and to its end. The token of the
// run is not in it.
func TestLogs(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var tokens []string
	var works atomic.Bool
	c.Provider = provider.WithState(&terraform.Provider{
		Runner: c.Runner, States: worked{stored{c.states}, &works}, StateURL: c.url, Installation: c.installation,
	}, func(ctx context.Context, name string, id uuid.UUID, incarnation int32) (provider.State, error) {
		state, err := c.begin(ctx, name, id, incarnation)
		tokens = append(tokens, state.Token)
		return state, err
	})
	logger, ok := provider.As[provider.Logger](c.Provider)
	require.True(t, ok)
	open := func(ref provider.Ref, follow bool) io.ReadCloser {
		t.Helper()
		logs, err := logger.Logs(t.Context(), ref, follow)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, logs.Close()) })
		return logs
	}
	read := func(logs io.Reader) string {
		t.Helper()
		text, err := io.ReadAll(logs)
		require.NoError(t, err)
		return string(text)
	}

	command, goOn := c.hold()
	req := c.request("talks", c.machine("machine", "echo password $TF_HTTP_PASSWORD; "+command), true)
	require.Empty(t, read(open(refTo(req), false)))
	ctx, giveUp := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { _, err := c.Create(ctx, req); failed <- err }()
	require.Eventually(t, func() bool { return strings.Contains(read(open(refTo(req), false)), "password [redacted]") }, eventually, poll,
		"while it goes on")
	giveUp()
	require.Error(t, <-failed)
	require.Contains(t, read(open(refTo(req), false)), "local-exec")

	goOn()
	made, err := c.Create(t.Context(), req)
	require.NoError(t, err)
	for _, ref := range []provider.Ref{refTo(req), {Name: req.Name}, {ProviderID: made.ProviderID}} {
		require.Contains(t, read(open(ref, false)), "Apply complete!")
	}
	for _, ref := range []provider.Ref{{Name: "other"}, {ProviderID: "none"}, {ProviderID: made.ProviderID, WorkspaceID: uuid.New()}} {
		_, err := logger.Logs(t.Context(), ref, false)
		require.ErrorIs(t, err, provider.ErrNotFound)
	}

	followed := make(chan string, 1)
	logs := open(refTo(req), true)
	go func() {
		text, _ := io.ReadAll(logs)
		followed <- string(text)
	}()
	works.Store(true)
	require.NoError(t, c.Delete(t.Context(), refTo(req)))
	works.Store(false)
	text := <-followed
	require.Contains(t, text, "Destroy complete!")
	require.NotEmpty(t, tokens)
	for _, token := range tokens {
		require.NotContains(t, text, token)
	}

	ctx, end := context.WithCancel(t.Context())
	endless, err := logger.Logs(ctx, provider.Ref{WorkspaceID: uuid.New()}, true)
	require.NoError(t, err)
	end()
	_, err = io.ReadAll(endless)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, endless.Close())
}
