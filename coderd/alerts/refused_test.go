package alerts_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// stricter is a provider that comes to refuse what it took before, as a new release may.
type stricter struct {
	provider.Provider
	refuses atomic.Bool
}

func (s *stricter) Unwrap() provider.Provider { return s.Provider }

func (s *stricter) Validate(spec json.RawMessage, parameters map[string]string) []provider.Problem {
	if s.refuses.Load() && parameters["size"] == "large" {
		return []provider.Problem{{Path: "binds[0]", Message: "may be written"}}
	}
	return s.Provider.Validate(spec, parameters)
}

// What is claimed of a spec that its provider refuses by now keeps running, and raises an alarm of its preset until it is
// released: a gauge, a line in the log, and an episode. What can be judged by its parameters alone is.
func TestClaimedRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := &stricter{}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		s.Provider = p
		return s
	})
	w.Apply(t, `
templates:
  - name: go
    provider: sim
    spec: {}
    presets:
      - {name: default, parameters: {size: large}, prebuilds: {instances: 2}}
      - {name: small, parameters: {size: small}, prebuilds: {instances: 1}}
`)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "warm", func() bool { return w.Count(t, "go", "ready") == 3 })
	claimed, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	var small uuid.UUID
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT id FROM presets WHERE name = 'small'").Scan(&small))
	_, err = r.Claims.Claim(ctx, claim.Request{
		UserID: w.Owner, OrganizationID: claimed.Workspace.OrganizationID, Source: "test", PresetID: small, Mode: database.ClaimModeRequire,
	})
	require.NoError(t, err)

	clock := quartz.NewMock(t)
	reader := alerts.NewReader(w.Store, clock, w.Providers.Refuses)
	reg := prometheus.NewRegistry()
	reg.MustRegister(alerts.NewCollector(reader, slog.Make()))
	refused := func() map[string]float64 {
		clock.Advance(10 * time.Minute)
		return scrape(t, reg, "prewarm_claimed_refused", map[string]string{"template": "go", "provider": "sim"}, "preset")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = reader.Read(ended)
	require.Error(t, err)
	require.Empty(t, refused())
	s.refuses.Store(true)
	require.Equal(t, map[string]float64{"default": 1}, refused())
	snap, err := reader.Read(ctx)
	require.NoError(t, err)
	require.Len(t, snap.Refused, 1)
	require.Equal(t, "check spec: binds[0]: may be written", snap.Refused[0].Why)
	require.Equal(t, 2, w.Count(t, "go", "claimed"), "nothing happens to it")

	// A look that fails leaves everything else to be read, and says nothing of what it did not see.
	again := alerts.NewReader(w.Store, clock, w.Providers.Refuses)
	_, err = again.Read(ctx)
	require.NoError(t, err)
	clock.Advance(10 * time.Minute)
	_, err = again.Read(ended)
	require.Error(t, err)
	snap, err = again.Read(ctx)
	require.NoError(t, err)
	require.True(t, snap.Judged)
	require.Len(t, snap.Refused, 1, "as it was seen last")

	// A replica without that provider says nothing of it.
	elsewhere, err := alerts.NewReader(w.Store, clock, provider.NewRegistry(nil, database.InTransaction).Refuses).Read(ctx)
	require.NoError(t, err)
	for _, found := range elsewhere.Refused {
		require.True(t, found.Unjudged)
	}

	_, err = w.Store.Pool.Exec(ctx, "UPDATE workspaces SET state = 'draining' WHERE id = $1", claimed.Workspace.ID)
	require.NoError(t, err)
	require.Empty(t, refused())
}
