package upgrade_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// emptyDatabase is one without a schema, so that the first server makes its own.
func emptyDatabase(t *testing.T) (string, *pgx.Conn) {
	t.Helper()
	address := dbtest.URL(t)
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	return address, conn
}

// columns are all there are, with their types.
func columns(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT table_name || '.' || column_name || ' ' || data_type
		FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1`)
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return found
}

// fill gives the installation something of every kind, and waits until it has settled. All of it is asked of the old server.
func fill(t *testing.T, s *e2etest.Server) {
	t.Helper()
	ctx, c := t.Context(), s.Client
	hub, err := forgetest.Start(context.WithoutCancel(ctx), forgetest.Options{Roots: []string{"orgs/acme"}, Token: "token-of-tests"})
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	_, err = c.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", URL: hub.API, Token: "token-of-tests"})
	require.NoError(t, err)
	_, err = c.PutForge(ctx, "acme", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acme"})
	require.NoError(t, err)
	_, err = c.Apply(ctx, sdk.ApplyRequest{Document: document(t.TempDir(), 4)})
	require.NoError(t, err)
	settled(t, s, "pools/default", 4)
	settled(t, s, "retired/default", 1)

	lease, err := c.Claim(ctx, sdk.ClaimRequest{Template: "pools", Preset: "default", Mode: "require", Lease: "2h"})
	require.NoError(t, err)
	require.NotNil(t, lease.WorkspaceID)
	back, err := c.Claim(ctx, sdk.ClaimRequest{Template: "pools", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	_, err = c.ReleaseWorkspace(ctx, back.Name)
	require.NoError(t, err)
	missed, err := c.Claim(ctx, sdk.ClaimRequest{Template: "failing", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "miss", missed.Outcome)
	settled(t, s, "pools/default", 4)
	ready, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready", Template: "pools", Preset: "default"})
	require.NoError(t, err)
	_, err = c.KeepWorkspace(ctx, ready.Workspaces[0].Name, sdk.KeepRequest{Reason: "its disk is full"})
	require.NoError(t, err)
	require.NoError(t, c.DeprecateTemplate(ctx, "retired"))
	_, err = c.Pause(ctx, sdk.PauseRequest{Scope: "preset", Target: "pools/paused", Reason: "moving", ExpiresIn: "2h"})
	require.NoError(t, err)
	settled(t, s, "pools/default", 4)
	settled(t, s, "retired/default", 0)
	eventually(t, "the failing preset says why", func() bool {
		p, err := c.Preset(ctx, "failing", "default")
		return err == nil && len(p.Reasons) > 0
	})
	eventually(t, "failures are stored", func() bool {
		f, err := c.PresetFailures(ctx, "failing", "default")
		text, _ := json.Marshal(f)
		return err == nil && strings.Contains(string(text), "sim")
	})
}

// document has pools of several kinds. The sim of both replicas has its state in one folder.
func document(cloud string, instances int) string {
	return strings.NewReplacer("CLOUD", cloud, "INSTANCES", strconv.Itoa(instances)).Replace(`
providers:
  - {name: cloud, kind: sim, config: {root: CLOUD}}
templates:
  - name: pools
    description: What is claimed
    provider: cloud
    spec: {create_latency: 5ms, delete_latency: 5ms}
    presets:
      - {name: default, parameters: {size: l}, prebuilds: {instances: INSTANCES}}
      - {name: paused, prebuilds: {instances: 1}}
      - {name: by-hand}
      - name: office-hours
        prebuilds: {instances: 1, schedule: {timezone: Europe/Berlin, ranges: [{cron: "* 8-18 * * *", instances: 2}]}}
  - name: failing
    provider: cloud
    spec: {create_latency: 5ms, fail_permanent: 1}
    presets: [{name: default, prebuilds: {instances: 2}}]
  - name: retired
    provider: cloud
    spec: {create_latency: 5ms, delete_latency: 5ms}
    presets: [{name: default, prebuilds: {instances: 1}}]
  - name: runners
    provider: local
    agent: {runner: [sleep, infinity]}
    spec: {command: [sleep, infinity]}
    presets:
      - name: linux
        prebuilds: {instances: 0} # no process is to outlive the servers
        runner: {forge: acme, labels: [self-hosted, linux, x64], maximum: 4}
`)
}

// settled waits until so many workspaces of a pool are ready.
func settled(t testing.TB, s *e2etest.Server, pool string, ready int) {
	t.Helper()
	template, preset, _ := strings.Cut(pool, "/")
	eventually(t, pool+" is settled", func() bool {
		list, err := s.Client.Workspaces(context.Background(), sdk.WorkspaceFilter{State: "ready", Template: template, Preset: preset})
		return err == nil && len(list.Workspaces) == ready
	})
}

// get asks a server as the owner.
func get(t testing.TB, s *e2etest.Server, path string) (int, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Client.Token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, body
}

// readings are the addresses of the old API that can be read, with the names of what fill made in them.
func readings(t testing.TB, old *e2etest.Server, workspace string) (paths []string) {
	t.Helper()
	_, body := get(t, old, "/openapi.json")
	var described struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(body, &described))
	for path, methods := range described.Paths {
		path = strings.NewReplacer("{template}", "pools", "{preset}", "default", "{workspace}", workspace,
			"{provider}", "cloud", "{entity}", "acme", "{forge}", "acme").Replace(path)
		if methods["get"] == nil || strings.Contains(path, "{") {
			continue
		}
		status, body := get(t, old, path)
		if status == http.StatusOK && json.Valid(body) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// oldPageNewAPI is an address where the page is that of the old server, and the API that of the new one, as behind a load
// balancer when a browser still has the page of before.
func oldPageNewAPI(t testing.TB, old, renewed *e2etest.Server) http.Handler {
	t.Helper()
	to := func(s *e2etest.Server) http.Handler {
		target, err := url.Parse(s.URL)
		require.NoError(t, err)
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the API compares it with the page's origin
		}}
	}
	mux := http.NewServeMux()
	mux.Handle("/", to(old))
	mux.Handle("/api/", to(renewed))
	return mux
}

// claimAndRelease has one binary's command line claim at a server, and release what it got.
func claimAndRelease(t testing.TB, binary string, s *e2etest.Server) {
	t.Helper()
	settled(t, s, "pools/default", 4)
	var claim sdk.Claim
	require.NoError(t, json.Unmarshal(command(t, binary, s, "claim", "pools/default", "--mode", "require"), &claim))
	assert.Equal(t, "hit", claim.Outcome)
	require.NotEmpty(t, claim.Name)
	require.NotEmpty(t, command(t, binary, s, "workspace", "show", claim.Name))
	require.NotEmpty(t, command(t, binary, s, "workspace", "release", claim.Name))
}
