package lifecycle_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/serverdb"
)

// noting is a cloud that notes what it is asked for.
type noting struct {
	provider.Provider
	mu      sync.Mutex
	creates []provider.CreateRequest
	deletes []provider.Ref
}

func (p *noting) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	p.mu.Lock()
	p.creates = append(p.creates, req)
	p.mu.Unlock()
	return p.Provider.Create(ctx, req)
}

func (p *noting) Delete(ctx context.Context, ref provider.Ref) error {
	p.mu.Lock()
	p.deletes = append(p.deletes, ref)
	p.mu.Unlock()
	return p.Provider.Delete(ctx, ref)
}

func (p *noting) noted() ([]provider.CreateRequest, []provider.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]provider.CreateRequest(nil), p.creates...), append([]provider.Ref(nil), p.deletes...)
}

// TestC13_ownVersionAndProvider: a create carries the preset's parameters and its version's spec. After the template has
// moved to another provider, what was built before goes at the provider that it was built at, and never at the new one.
func TestC13_ownVersionAndProvider(t *testing.T) {
	t.Parallel()
	clouds := map[string]*noting{}
	for _, name := range []string{"sim", "second"} {
		cloud, err := sim.New(sim.Options{Clock: quartz.NewReal()})
		require.NoError(t, err)
		clouds[name] = &noting{Provider: cloud}
	}
	w := coderdtest.NewWorld(t, sim.Behavior{})
	require.NoError(t, serverdb.New(w.Store).EnsureProvider(context.Background(),
		serverdb.EnsureProviderParams{Name: "second", Kind: "second"}))
	factory := func(name string) provider.Factory {
		return func(json.RawMessage) (provider.Provider, error) { return clouds[name], nil }
	}
	w.Providers = provider.NewRegistry(map[string]provider.Factory{"sim": factory("sim"), "second": factory("second")},
		database.InTransaction)
	w.Providers.Update([]provider.Row{{Name: "sim", Kind: "sim"}, {Name: "second", Kind: "second"}})
	r := w.Start(t, coderdtest.Config{})
	template := func(at, latency string) string {
		return `
templates:
  - name: a
    provider: ` + at + `
    keep_outdated: false
    spec: {create_latency: ` + latency + `}
    presets: [{name: default, parameters: {cpu: 2, region: north}, prebuilds: {instances: 2}}]
`
	}
	r.Reconciler.Nudge(w.Apply(t, template("sim", "0s"))...)
	coderdtest.Eventually(t, "two at the first provider", func() bool { return w.Warm(t, "a") == 2 })
	creates, deletes := clouds["sim"].noted()
	require.Empty(t, deletes)
	built := map[string]bool{}
	for _, c := range creates {
		require.Equal(t, map[string]string{"cpu": "2", "region": "north"}, c.Parameters)
		require.JSONEq(t, `{"create_latency": "0s"}`, string(c.Spec))
		built[c.Name] = true
	}
	require.Len(t, built, 2)

	r.Reconciler.Nudge(w.Apply(t, template("second", "1ns"))...)
	coderdtest.Eventually(t, "two at the second provider, none at the first", func() bool {
		return w.Warm(t, "a") == 2 && w.Count(t, "a", "deleted") == 2
	})
	_, deletes = clouds["sim"].noted()
	gone := map[string]bool{}
	for _, d := range deletes {
		require.True(t, built[d.Name])
		gone[d.Name] = true
	}
	require.Equal(t, built, gone, "each goes where it was built")
	creates, deletes = clouds["second"].noted()
	require.Empty(t, deletes)
	for _, c := range creates {
		require.JSONEq(t, `{"create_latency": "1ns"}`, string(c.Spec))
		require.False(t, built[c.Name])
	}
}
