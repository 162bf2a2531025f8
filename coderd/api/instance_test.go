package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// token makes that of an attempt to create a workspace, as the worker with the job does.
func (w *world) instanceToken(id uuid.UUID, incarnation, attempt int32) string {
	w.t.Helper()
	callback, err := w.instances.Callback(context.Background(), database.Job{
		WorkspaceID: id, Incarnation: incarnation, Attempt: attempt,
	}, json.RawMessage(`{"heartbeat_timeout_s": 60}`))
	require.NoError(w.t, err)
	require.Equal(w.t, "http://test/api/v1/instance/metadata", callback.MetadataURL)
	return callback.Token
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

const metadata = "/api/v1/instance/metadata"

// G7: a token is good for its own attempt and incarnation, in the states of its work, and for nothing else.
func TestInstanceTokenIsBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("quickstart", "starting", "prewarm")
	first := w.instanceToken(ws.ID, 1, 1)
	require.Equal(t, http.StatusOK, w.call(first, http.MethodGet, metadata, "").status)
	require.Equal(t, http.StatusOK, w.call(first, http.MethodPost, "/api/v1/instance/status", `{"status":"ready"}`).status)

	second := w.instanceToken(ws.ID, 1, 2)
	for _, op := range []struct{ method, path, body string }{
		{http.MethodGet, metadata, ""},
		{http.MethodGet, "/api/v1/instance/events", ""},
		{http.MethodPost, "/api/v1/instance/status", `{"status":"ready"}`},
	} {
		a := w.call(first, op.method, op.path, op.body)
		require.Equal(t, http.StatusUnauthorized, a.status, op.path)
		require.Contains(t, a.problem(t).Detail, "the token is of attempt 1 to create workspace "+ws.Name+", which is at attempt 2")
	}
	require.Equal(t, http.StatusOK, w.call(second, http.MethodGet, metadata, "").status)
	_, err := w.instances.Callback(context.Background(), database.Job{WorkspaceID: ws.ID, Incarnation: 1, Attempt: 1},
		json.RawMessage(`{"heartbeat_timeout_s": 60}`))
	require.Error(t, err, "a worker that comes late takes nothing over")
	require.Equal(t, http.StatusOK, w.call(second, http.MethodGet, metadata, "").status)

	for state, want := range map[string]int{
		"provisioning": 200, "ready": 200, "standby": 200, "draining": 401, "deleting": 401, "deleted": 401, "quarantined": 401,
	} {
		w.exec("UPDATE workspaces SET state = $2::text::workspace_state WHERE id = $1", ws.ID, state)
		a := w.call(second, http.MethodGet, metadata, "")
		require.Equal(t, want, a.status, "%s: %s", state, a.body)
		if want == http.StatusUnauthorized {
			require.Contains(t, a.problem(t).Detail, "is "+state+": its token ended with its work")
		}
	}
	w.exec("UPDATE workspaces SET state = 'ready', incarnation = 2 WHERE id = $1", ws.ID)
	a := w.call(second, http.MethodGet, metadata, "")
	require.Equal(t, http.StatusUnauthorized, a.status)
	require.Contains(t, a.problem(t).Detail, "the token is of incarnation 1")
}

// Neither kind of token is good for the other's operations, and one that was tampered with for nothing.
func TestTokensOfTheOtherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("quickstart", "starting", "prewarm")
	token := w.instanceToken(ws.ID, 1, 1)
	require.Equal(t, http.StatusUnauthorized, w.call(token, http.MethodGet, "/api/v1/workspaces", "").status)
	a := w.call(w.token["owner"], http.MethodGet, metadata, "")
	require.Equal(t, http.StatusForbidden, a.status)
	require.Contains(t, a.problem(t).Detail, "only instance tokens")

	parts := strings.Split(token, ".")
	none := "eyJhbGciOiJub25lIn0." + parts[1] + "." // {"alg":"none"}
	for _, forged := range []string{none, parts[0] + "." + parts[1] + ".", parts[0] + "." + parts[1] + "x." + parts[2], token + "x"} {
		require.Equal(t, http.StatusUnauthorized, w.call(forged, http.MethodGet, metadata, "").status, forged)
	}
}

// What is said is at most 64 KiB, and not more often than an agent has reason to.
func TestInstanceLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("quickstart", "starting", "prewarm")
	token := w.instanceToken(ws.ID, 1, 1)
	report := func(bytes int) answer {
		return w.call(token, http.MethodPost, "/api/v1/instance/status",
			`{"status":"starting","system_info":{"x":"`+strings.Repeat("x", bytes)+`"}}`)
	}
	require.Equal(t, http.StatusOK, report(60<<10).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, report(64<<10).status)
	for body, want := range map[string]string{
		`{"status":"splendid"}`:                                            "body.status",
		`{"status":"ready","system_info":[1]}`:                             "system_info must be an object",
		`{"status":"ready","message":"` + strings.Repeat("x", 4097) + `"}`: "body.message",
	} {
		a := w.call(token, http.MethodPost, "/api/v1/instance/status", body)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, a.body)
		require.Contains(t, a.body, want)
	}

	refused := false
	for range 1000 { // far more than the bucket holds; the refill is a few in a second
		a := w.call(token, http.MethodGet, metadata, "")
		if a.status == http.StatusTooManyRequests {
			require.NotEmpty(t, a.header.Get("Retry-After"))
			refused = true
			break
		}
		require.Equal(t, http.StatusOK, a.status)
	}
	require.True(t, refused)
	other := w.workspace("quickstart", "starting", "prewarm")
	require.Equal(t, http.StatusOK, w.call(w.instanceToken(other.ID, 1, 1), http.MethodGet, metadata, "").status)
}

// What the workspace is told: nothing of an owner until it is claimed, then all of the claim.
func TestInstanceMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	ws := w.workspace("quickstart", "ready", "prewarm")
	agent, err := sdk.New(w.url, w.instanceToken(ws.ID, 1, 1))
	require.NoError(t, err)
	m, err := agent.InstanceMetadata(ctx)
	require.NoError(t, err)
	require.Equal(t, ws.Name, m.Name)
	require.Equal(t, "authorities", m.CABundle)
	require.Equal(t, "quickstart", m.Labels["template"])
	require.Nil(t, m.Claim)

	claim, err := w.as("member").Claim(ctx, sdk.ClaimRequest{
		Template: "quickstart", Preset: "default", Mode: "require", Parameters: map[string]string{"branch": "main"},
	})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome)
	events, err := agent.InstanceEvents(ctx, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, claim.ClaimID, events.Claim.ClaimID)
	require.Equal(t, "member", events.Claim.Owner)
	require.Equal(t, "main", events.Claim.Parameters["branch"])

	wrong := uuid.New()
	_, err = agent.Report(ctx, sdk.AgentReport{Status: sdk.AgentClaimReady, ClaimID: &wrong})
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "%v", err)
	_, err = agent.Report(ctx, sdk.AgentReport{Status: sdk.AgentClaimReady})
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "%v", err)
	_, err = agent.Report(ctx, sdk.AgentReport{Status: sdk.AgentClaimReady, ClaimID: &claim.ClaimID})
	require.NoError(t, err)
	shown, err := w.as("member").Workspace(ctx, ws.Name)
	require.NoError(t, err)
	require.Equal(t, "claim-ready", shown.Agent.Status)
	require.NotNil(t, shown.Agent.ClaimSeenAt)
	require.NotNil(t, shown.Agent.ClaimReadyAt)
	audit, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Limit: 100})
	require.NoError(t, err)
	for _, e := range audit.Entries {
		require.NotContains(t, string(e.After), "branch", "late parameters may be secrets")
	}

	for name, parameters := range map[string]map[string]string{
		"parameter name": {"a b": "x"}, "without a NUL": {"a": "x\x00"}, "at most": {"a": strings.Repeat("x", 40<<10)},
	} {
		_, err := w.as("member").Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Parameters: parameters})
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))
		require.ErrorContains(t, err, name)
	}
}

// A ready workspace that says it is unhealthy is drained; a claimed one keeps its owner (I2).
func TestInstanceUnhealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for state, want := range map[string]string{"ready": "draining", "claimed": "claimed"} {
		ws := w.workspace("quickstart", state, "member")
		agent, err := sdk.New(w.url, w.instanceToken(ws.ID, 1, 1))
		require.NoError(t, err)
		_, err = agent.Report(context.Background(), sdk.AgentReport{Status: sdk.AgentUnhealthy, Message: "the disk is full"})
		require.NoError(t, err)
		shown, err := w.as("owner").Workspace(context.Background(), ws.Name)
		require.NoError(t, err)
		require.Equal(t, want, shown.State)
		if state == "ready" {
			require.Contains(t, shown.History[0].Reason, "the disk is full")
		}
	}
}
