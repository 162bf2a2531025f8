package lifecycle_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// named is a cloud that says which system a workspace has when it is made, and its version only later.
type named struct {
	provider.Provider
	version atomic.Pointer[string]
}

func (p *named) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	i, err := p.Provider.Create(ctx, req)
	i.OSName = "ubuntu"
	return i, err
}

func (p *named) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	i, err := p.Provider.Get(ctx, ref)
	i.OSVersion = *p.version.Load()
	return i, err
}

// G2: what the provider says of the system is kept: an answer that does not say takes nothing back, and one that is far too
// long, or not text, harms nothing.
func TestSystemIsKept(t *testing.T) {
	t.Parallel()
	for what, version := range map[string]struct{ said, kept string }{
		"a version":  {"24.04", "24.04"},
		"nothing":    {"", ""},
		"a long one": {strings.Repeat("v", 100_000), strings.Repeat("v", 255)},
		"no text":    {"24\x00.04\xff", "24"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cloud := &named{}
			cloud.version.Store(&version.said)
			w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
				cloud.Provider = p
				return cloud
			})
			r := w.Start(t, coderdtest.Config{})
			r.Reconciler.Nudge(w.Pool(t, "a", 1, 1)...)
			coderdtest.Eventually(t, "one is ready", func() bool { return w.Warm(t, "a") == 1 })
			var name, kept string
			require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT os_name, os_version FROM workspaces").Scan(&name, &kept))
			require.Equal(t, "ubuntu", name)
			require.True(t, strings.HasPrefix(kept, version.kept), kept)
			require.LessOrEqual(t, len(kept), 300)
		})
	}
}
