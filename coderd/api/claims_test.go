package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a claim cannot be is refused with what to write, and nothing is changed; no answer repeats a value.
func TestClaim_badInput(t *testing.T) {
	w := newWorld(t)
	c := w.as("member")
	for name, bad := range map[string]struct {
		req  sdk.ClaimRequest
		says string
	}{
		"mode":             {sdk.ClaimRequest{Preset: "default", Mode: "fast"}, "validation failed"},
		"cold and require": {sdk.ClaimRequest{Preset: "default", Mode: "require", Cold: true}, "cold goes with mode prefer"},
		"no time to build": {sdk.ClaimRequest{Preset: "default", Mode: "bypass", Wait: "0s"}, "there must be time for it"},
		"wait":             {sdk.ClaimRequest{Preset: "default", Wait: "1h"}, "from 0s to 15m0s"},
		"lease":            {sdk.ClaimRequest{Preset: "default", Lease: "10ms"}, `lease "10ms": write a duration`},
		"wait_ready":       {sdk.ClaimRequest{Preset: "default", WaitReady: "soon"}, `wait_ready "soon"`},
		"count":            {sdk.ClaimRequest{Preset: "default", Count: 101}, "validation failed"},
		"count and ready":  {sdk.ClaimRequest{Preset: "default", Count: 2, WaitReady: "1m"}, "goes with one workspace"},
		"two choices":      {sdk.ClaimRequest{Preset: "default", PresetParameters: map[string]string{"a": "b"}}, "give one of them"},
		"secret's name":    {sdk.ClaimRequest{Preset: "default", Secrets: map[string]string{"a/b": "pssst"}}, `secret name "a/b"`},
		"secret's text":    {sdk.ClaimRequest{Preset: "default", Secrets: map[string]string{"a": "pssst\x00"}}, "NUL"},
		"no agent":         {sdk.ClaimRequest{Preset: "default", Secrets: map[string]string{"a": "pssst"}}, "would receive secrets"},
		"no preset":        {sdk.ClaimRequest{Preset: "other"}, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			bad.req.Template = "quickstart"
			_, err := c.Claim(t.Context(), bad.req)
			require.ErrorContains(t, err, bad.says)
			require.NotContains(t, err.Error(), "pssst")
		})
	}
	var n int
	require.NoError(t, w.store.Pool.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM claim_parameters)").Scan(&n))
	require.Zero(t, n)
}

// unsure is a provider at which what an earlier user started may live on.
type unsure struct{ bare }

func (unsure) Isolated() error { return errors.New("no namespaces here") }

type oneProvider struct{ provider.Provider }

func (p oneProvider) Get(string) (provider.Provider, error) { return p.Provider, nil }
func (oneProvider) Read(context.Context) error              { return nil }
func (oneProvider) Sites() []string                         { return nil }

// C14: parameters that nobody would receive are refused: the template has no agent, and its provider asks for no token to
// read them by.
func TestClaim_parametersWantAReceiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	receives := func(template string, req sdk.ClaimRequest) error {
		req.Template, req.Mode = template, "require"
		_, err := w.as("member").Claim(t.Context(), req)
		return err
	}
	given := sdk.ClaimRequest{Preset: "default", Parameters: map[string]string{"b": "pssst", "a": "x"}}
	chosen := sdk.ClaimRequest{PresetParameters: map[string]string{"cpu": "2", "a": "what the preset does not have"}}
	w.exec(`UPDATE presets SET parameters = '{"cpu": "2"}'`)
	for _, req := range []sdk.ClaimRequest{given, chosen} {
		err := receives("plain", req)
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))
		require.ErrorContains(t, err, "would receive parameter a: ")
		require.NotContains(t, err.Error(), "pssst")
		require.NoError(t, receives("quickstart", req), "its provider takes tokens")
	}
	w.exec("UPDATE template_versions SET agent = '{}'")
	require.NoError(t, receives("plain", given))
}

// Secrets are refused where an earlier user of the workspace could read them.
func TestClaim_secretsWantIsolation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("UPDATE template_versions SET agent = '{}'")
	url := w.serve(api.Options{Providers: oneProvider{unsure{}}})
	c, err := sdk.New(url, w.token["member"])
	require.NoError(t, err)
	req := sdk.ClaimRequest{Template: "quickstart", Preset: "default", Secrets: map[string]string{"a": "pssst"}}
	_, err = c.Claim(t.Context(), req)
	require.ErrorContains(t, err, "no namespaces here")
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
	require.NotContains(t, err.Error(), "pssst")
	_, err = w.as("member").Claim(t.Context(), req)
	require.NoError(t, err, "elsewhere they are taken")
}

// A preset is chosen by its parameters: the one with most of those that match; a miss names what differs.
func TestClaim_presetByParameters(t *testing.T) {
	w := newWorld(t)
	_, err := w.as("admin").Apply(t.Context(), sdk.ApplyRequest{File: "test.yaml", Document: `
templates:
  - name: chosen
    provider: roomy
    agent: {}
    spec: {}
    presets:
      - {name: plain}
      - {name: small, parameters: {cpu: 2}}
      - {name: near, parameters: {cpu: 2, region: eu}}
      - {name: twin, parameters: {disk: ssd}}
      - {name: other-twin, parameters: {disk: ssd}}
`})
	require.NoError(t, err)
	claim := func(parameters map[string]string) (sdk.Claim, error) {
		return w.as("member").Claim(t.Context(), sdk.ClaimRequest{
			Template: "chosen", PresetParameters: parameters, Mode: "require",
		})
	}
	for _, c := range []struct {
		given  map[string]string
		preset string
		says   string
	}{
		{map[string]string{"cpu": "2"}, "small", "keeps no prebuilds"},
		{map[string]string{"cpu": "2", "region": "us"}, "small", "keeps no prebuilds"},
		{map[string]string{"cpu": "2", "region": "eu", "debug": "yes"}, "near", "keeps no prebuilds"},
		{map[string]string{"cpu": "4"}, "", "the nearest is small: its cpu is 2, not 4"},
		{map[string]string{"region": "eu"}, "", "the nearest is near: it also has cpu=2"},
	} {
		got, err := claim(c.given)
		require.NoError(t, err)
		require.Equal(t, "miss", got.Outcome)
		require.Equal(t, c.preset, got.Preset, "%v", c.given)
		require.Contains(t, got.Reason, c.says)
	}
	_, err = claim(map[string]string{"disk": "ssd"})
	require.ErrorContains(t, err, "other-twin, twin of template chosen all have these parameters")
	_, err = claim(nil)
	require.ErrorContains(t, err, "name one, or give the parameters")
	_, err = w.as("member").Claim(t.Context(), sdk.ClaimRequest{Template: "nowhere"})
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
}

// A lease is asked for, shown and renewed through the API; what has none is refused unless it is given one.
func TestClaim_leaseAndSeveral(t *testing.T) {
	w := newWorld(t)
	for range 4 {
		w.workspace("quickstart", "ready", "prewarm")
	}
	c := w.as("member")
	one, err := c.Claim(t.Context(), sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require", Lease: "2h"})
	require.NoError(t, err)
	require.Equal(t, "hit", one.Outcome, one.Reason)
	require.NotNil(t, one.LeaseUntil)
	require.NotNil(t, one.Receipt.StatementMS)
	shown, err := c.Workspace(t.Context(), one.Name)
	require.NoError(t, err)
	require.WithinDuration(t, *one.LeaseUntil, *shown.LeaseUntil, 0)
	renewed, err := c.RenewWorkspace(t.Context(), one.Name, "")
	require.NoError(t, err)
	require.True(t, renewed.LeaseUntil.After(*one.LeaseUntil))
	_, err = w.as("other").RenewWorkspace(t.Context(), one.Name, "3h")
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err), "somebody else's")

	two := sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require", Count: 2, Key: "k"}
	both, err := c.Claim(t.Context(), two)
	require.NoError(t, err)
	require.Len(t, both.Workspaces, 2, both.Reason)
	require.Equal(t, both.Name, both.Workspaces[0].Name)
	again, err := c.Claim(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, both.Workspaces, again.Workspaces)
	two.Key = ""
	none, err := c.Claim(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, "miss", none.Outcome, "one is left")
	_, err = c.RenewWorkspace(t.Context(), both.Workspaces[1].Name, "")
	require.ErrorContains(t, err, "has no lease to renew")
	given, err := c.RenewWorkspace(t.Context(), both.Workspaces[1].Name, "1h")
	require.NoError(t, err)
	two.Key = "k"
	again, err = c.Claim(t.Context(), two)
	require.NoError(t, err)
	require.Nil(t, again.Workspaces[0].LeaseUntil)
	require.WithinDuration(t, *given.LeaseUntil, *again.Workspaces[1].LeaseUntil, 0)
	require.WithinDuration(t, *given.LeaseUntil, *again.LeaseUntil, 0, "the first that ends")
	_, err = c.RenewWorkspace(t.Context(), both.Workspaces[1].Name, "-1h")
	require.ErrorContains(t, err, "write a duration")
}
