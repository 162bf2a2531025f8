package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
)

const cloudConfiguration = `
providers:
  - {name: cloud, kind: sim}
  - {name: idle, kind: sim}
templates:
  - name: vm
    provider: cloud
    spec: {ready_latency: 1ms}
    presets:
      - {name: small, parameters: {flavor: small}}
`

// cloudy is a server whose provider cloud is simulated, and away does not work.
func cloudy(t *testing.T) (*world, *sim.Provider, func(user string) *sdk.Client) {
	t.Helper()
	w := newWorld(t)
	cloud, err := sim.New(sim.Options{})
	require.NoError(t, err)
	registry := provider.NewRegistry(map[string]provider.Factory{
		"sim": func(json.RawMessage) (provider.Provider, error) { return cloud, nil },
	}, database.InTransaction)
	service := &templates.Service{Store: w.store, NewProvider: registry.New}
	_, err = service.Apply(t.Context(), templates.Request{By: w.owner, File: "cloud.yaml", Source: cloudConfiguration})
	require.NoError(t, err)
	registry.Update([]provider.Row{{Name: "cloud", Kind: "sim"}, {Name: "idle", Kind: "sim"}, {Name: "bare", Kind: "gone"}})
	w.installation = uuid.New()
	url := w.serve(api.Options{Providers: registry, Templates: service, Installation: w.installation})
	return w, cloud, func(user string) *sdk.Client {
		c, err := sdk.New(url, w.token[user])
		require.NoError(t, err)
		return c
	}
}

func TestListProviders(t *testing.T) {
	t.Parallel()
	_, _, client := cloudy(t)
	list, err := client("auditor").Providers(t.Context())
	require.NoError(t, err)
	limits := sdk.ProviderLimits{
		CreatesInFlight: 16, Chunk: 1000, CreateBurst: 1, InventoryEvery: "1m0s", BreakerCount: 10, BreakerPercent: 25,
		BreakerErrors: 50,
	}
	for i := range list {
		require.Equal(t, limits, list[i].Limits, "those of who configures none")
		require.Equal(t, []sdk.SiteInventory{}, list[i].Sites, "no inventory was made yet")
		list[i].Limits, list[i].Sites = sdk.ProviderLimits{}, nil
	}
	require.Equal(t, []sdk.Provider{
		{Name: "bare", Kind: "bare", Can: []string{}, Error: `make provider "bare": unknown kind "gone": it is one of sim`},
		{Name: "cloud", Kind: "sim", Can: []string{"stop", "reset"}, Confirmed: true},
		{Name: "idle", Kind: "sim", Can: []string{"stop", "reset"}, Confirmed: true},
		{Name: "roomy", Kind: "roomy", Can: []string{}, Error: `no provider is named "roomy"`},
	}, list)
}

// A provider that was just applied works at once: on the replica that applied it, and on one that has not heard of it.
func TestApply_providerIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cloud, err := sim.New(sim.Options{})
	require.NoError(t, err)
	replicaOf := func() *sdk.Client {
		registry := provider.NewRegistry(map[string]provider.Factory{
			"sim": func(json.RawMessage) (provider.Provider, error) { return cloud, nil },
		}, database.InTransaction)
		registry.From(t.Context(), quartz.NewReal(), replica.Configured(w.store))
		require.NoError(t, registry.Read(t.Context()))
		c, err := sdk.New(w.serve(api.Options{
			Providers: registry, Templates: &templates.Service{Store: w.store, NewProvider: registry.New},
		}), w.token["owner"])
		require.NoError(t, err)
		return c
	}
	here, there := replicaOf(), replicaOf()
	for i, read := range []*sdk.Client{here, there} {
		name := fmt.Sprintf("new-%d", i)
		_, err = here.Apply(t.Context(), sdk.ApplyRequest{File: "a.yaml", Document: "providers: [{name: " + name + ", kind: sim}]"})
		require.NoError(t, err)
		list, err := read.Providers(t.Context())
		require.NoError(t, err)
		at := slices.IndexFunc(list, func(p sdk.Provider) bool { return p.Name == name })
		require.GreaterOrEqual(t, at, 0)
		require.Empty(t, list[at].Error)
		require.Contains(t, list[at].Can, "stop")
	}
}

// A check gives its verdicts one by one, leaves nothing, and is on the record.
func TestCheckProvider(t *testing.T) {
	t.Parallel()
	_, cloud, client := cloudy(t)
	for _, req := range []sdk.CheckRequest{{}, {Template: "vm", Preset: "small"}} {
		verdicts := map[string]string{}
		err := client("admin").CheckProvider(t.Context(), "cloud", req, func(v sdk.CheckVerdict) error {
			require.Empty(t, v.Detail, v.Case)
			require.NotEmpty(t, v.About)
			verdicts[v.Case] = v.Outcome
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, "passed", verdicts["BecomesReady"])
		require.Equal(t, "passed", verdicts["ResetIsFenced"])
		require.Equal(t, "passed", verdicts["StopAndStart"])
		require.NotContains(t, verdicts, "ManyNamesAtOnce")
	}
	n, err := cloud.Count()
	require.NoError(t, err)
	require.Zero(t, n)
	history, err := cloud.History()
	require.NoError(t, err)
	require.NotEmpty(t, history, "it did make something")
	audit, err := client("owner").Audit(t.Context(), sdk.AuditFilter{Action: "provider.check"})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 2)
	require.Equal(t, "cloud", audit.Entries[0].TargetName)
}

func TestCheckProviderIsRefused(t *testing.T) {
	t.Parallel()
	_, cloud, client := cloudy(t)
	for name, c := range map[string]struct {
		user, provider string
		req            sdk.CheckRequest
		status         int
		text           string
	}{
		"member":         {"member", "cloud", sdk.CheckRequest{}, http.StatusForbidden, "Your role (member) cannot check a provider"},
		"unknown":        {"admin", "clowd", sdk.CheckRequest{}, http.StatusNotFound, `there is no provider "clowd"`},
		"does not work":  {"admin", "bare", sdk.CheckRequest{}, http.StatusServiceUnavailable, "unknown kind"},
		"unknown preset": {"admin", "cloud", sdk.CheckRequest{Template: "vm", Preset: "big"}, http.StatusNotFound, `no preset "big"`},
		"other provider": {
			"admin", "cloud",
			sdk.CheckRequest{Template: "plain", Preset: "default"},
			http.StatusUnprocessableEntity,
			"is made by provider bare",
		},
	} {
		err := client(c.user).CheckProvider(context.Background(), c.provider, c.req, func(sdk.CheckVerdict) error { return nil })
		require.ErrorContains(t, err, c.text, name)
		require.Equal(t, c.status, sdk.StatusOf(err), name)
	}
	history, err := cloud.History()
	require.NoError(t, err)
	require.Empty(t, history)
	// A provider without templates is checked with an empty spec, where that will do.
	require.NoError(t, client("admin").CheckProvider(context.Background(), "idle", sdk.CheckRequest{},
		func(v sdk.CheckVerdict) error { require.NotEqual(t, "failed", v.Outcome, v.Detail); return nil }))
}
