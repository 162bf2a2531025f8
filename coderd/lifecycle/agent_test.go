package lifecycle_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// host is a cloud that hands tokens to agents which the test plays. Its first create makes the resource, and then hangs
// until it is cut off.
type host struct {
	provider.Provider

	mu    sync.Mutex
	calls []string // create and delete, in order
	given []provider.Callback
	hung  chan struct{}
}

func (*host) HostsAgent() {}

func (h *host) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	h.mu.Lock()
	h.calls = append(h.calls, "create")
	h.given = append(h.given, req.Callback)
	first := len(h.given) == 1
	h.mu.Unlock()
	i, err := h.Provider.Create(ctx, req)
	if first {
		close(h.hung)
		<-ctx.Done()
		return i, ctx.Err()
	}
	return i, err
}

func (h *host) Delete(ctx context.Context, ref provider.Ref) error {
	h.mu.Lock()
	h.calls = append(h.calls, "delete")
	h.mu.Unlock()
	return h.Provider.Delete(ctx, ref)
}

func (h *host) seen() ([]string, []provider.Callback) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.calls...), append([]provider.Callback{}, h.given...)
}

// G7: a create that another worker takes over deletes what the first made, whose token is refused from then on; and it is
// the agent's report, not the provider's readiness, that makes the workspace ready.
func TestAgentOfALaterAttempt(t *testing.T) {
	t.Parallel()
	h := &host{hung: make(chan struct{})}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		h.Provider = p
		return h
	})
	first := w.Start(t, coderdtest.Config{Grace: 1})
	first.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: t
    provider: sim
    agent: {}
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)...)
	<-h.hung
	first.Stop()
	second := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "the second attempt to create it", func() bool { return w.Count(t, "t", "starting") == 1 })
	calls, given := h.seen()
	require.Equal(t, []string{"create", "delete", "create"}, calls)

	ctx := t.Context()
	_, err := second.Instances.Authenticate(ctx, given[0].Token)
	require.ErrorContains(t, err, "the token is of attempt 1")
	i, err := second.Instances.Authenticate(ctx, given[1].Token)
	require.NoError(t, err)
	coderdtest.Eventually(t, "the provider to be asked in vain", func() bool {
		var why string
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT last_error FROM jobs WHERE kind = 'probe'").Scan(&why))
		return why == "waiting for its agent to report"
	})
	require.Equal(t, 1, w.Count(t, "t", "starting"))
	_, err = second.Instances.Report(ctx, i, instance.Report{Status: database.AgentStatusReady})
	require.NoError(t, err)
	coderdtest.Eventually(t, "the workspace to be ready", func() bool { return w.Warm(t, "t") == 1 })
}

// An agent that says so before it was ever ready is a failure of its preset, with its message.
func TestAgentUnhealthyWhileStarting(t *testing.T) {
	t.Parallel()
	h := &host{hung: make(chan struct{})}
	h.given = []provider.Callback{{}} // none hangs
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		h.Provider = p
		return h
	})
	r := w.Start(t, coderdtest.Config{})
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: t
    provider: sim
    agent: {}
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)...)
	coderdtest.Eventually(t, "it to be created", func() bool { return w.Count(t, "t", "starting") == 1 })
	calls, given := h.seen()
	require.Equal(t, []string{"create"}, calls, "before a first attempt there is nothing to delete")
	i, err := r.Instances.Authenticate(t.Context(), given[1].Token)
	require.NoError(t, err)
	_, err = r.Instances.Report(t.Context(), i, instance.Report{Status: database.AgentStatusUnhealthy, Message: "no space"})
	require.NoError(t, err)
	coderdtest.Eventually(t, "it to fail", func() bool {
		var fault string
		require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT fault FROM workspaces WHERE id = $1",
			i.WorkspaceID).Scan(&fault))
		return fault == "the agent reports: no space"
	})
}

// taker is a cloud whose instances all get tokens.
type taker struct{ host }

func (*taker) TakesTokens() {}

// G2, G7: where the provider hands one to every instance, a template without an agent gets a token too, and nothing to
// install. The provider is still the one to say ready.
func TestTokenWithoutAnAgent(t *testing.T) {
	t.Parallel()
	h := &taker{host{hung: make(chan struct{}), given: []provider.Callback{{}}}} // none hangs
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		h.Provider = p
		return h
	})
	r := w.Start(t, coderdtest.Config{})
	r.Reconciler.Nudge(w.Pool(t, "t", 1, 1)...)
	coderdtest.Eventually(t, "the workspace to be ready", func() bool { return w.Warm(t, "t") == 1 })
	calls, given := h.seen()
	require.Equal(t, []string{"create"}, calls, "before a first attempt there is nothing to delete")
	require.Len(t, given, 2)
	require.Empty(t, given[1].InstallScript)
	i, err := r.Instances.Authenticate(t.Context(), given[1].Token)
	require.NoError(t, err)
	_, err = r.Instances.Report(t.Context(), i, instance.Report{Status: database.AgentStatusStarting, Message: "installing"})
	require.NoError(t, err)
	require.Equal(t, 1, w.Warm(t, "t"))
}
