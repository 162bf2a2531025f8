package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
)

// User data that was written for GARM reports as it always did: in its own words, JSON that says it is a form.
func TestInstanceReportsOfGARM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("quickstart", "starting", "prewarm")
	callback, err := w.instances.Callback(context.Background(), database.Job{
		WorkspaceID: ws.ID, Incarnation: 1, Attempt: 1,
	}, nil) // the template has no agent
	require.NoError(t, err)
	require.Empty(t, callback.InstallScript)
	require.True(t, strings.HasSuffix(callback.CallbackURL, "/status"), "it appends /status to what does not end so")
	post := func(path, body string) answer {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+callback.Token)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return w.send(req)
	}
	for _, said := range []struct{ body, status, message string }{
		{`{"status": "installing", "message": "downloading tools"}`, "starting", "downloading tools"},
		{`{"status": "idle", "message": "runner successfully installed", "agent_id": null}`, "ready", "runner successfully installed"},
		{`{"status": "idle", "message": "again", "agent_id": 12}`, "ready", "again"},
		{`{"status": "failed", "message": "failed to extract runner"}`, "unhealthy", "failed to extract runner"},
	} {
		a := post("/api/v1/instance/status", said.body)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", said.body, a.body)
		shown, err := w.as("owner").Workspace(context.Background(), ws.Name)
		require.NoError(t, err)
		require.Equal(t, said.status, shown.Agent.Status)
		require.Equal(t, said.message, shown.Agent.Message)
	}
	a := post("/api/v1/instance/system-info/", `{"os_name": "Debian", "os_version": "12", "agent_id": null}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	shown, err := w.as("owner").Workspace(context.Background(), ws.Name)
	require.NoError(t, err)
	require.Equal(t, "unhealthy", shown.Agent.Status, "as before")
	var info map[string]any
	require.NoError(t, json.Unmarshal(shown.Agent.SystemInfo, &info))
	require.Equal(t, "Debian", info["os_name"])

	for _, path := range []string{
		"/runner-registration-token/", "/credentials/runner", "/system/service-name", "/systemd/unit-file", "/runner-metadata",
	} {
		a = w.call(callback.Token, http.MethodGet, metadata+path, "")
		require.Equal(t, http.StatusNotFound, a.status, "%s: it is of no forge", path)
	}
	a = w.call(callback.Token, http.MethodGet, metadata+"/system/cert-bundle", "")
	require.Equal(t, http.StatusOK, a.status, "the server's, of which there are none in PEM here")
	require.JSONEq(t, `{"root_certificates": {}}`, a.body)
}

// A ready workspace without an agent is not drained for what its user data says: an executable that speaks v0.1.0 puts the
// installer of a runner into it, which says that it failed. Each was replaced by another, without end.
func TestInstanceReportsOfGARM_failedWithoutAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, agent := range map[string]json.RawMessage{"ready": nil, "draining": json.RawMessage(`{"heartbeat_timeout_s": 60}`)} {
		ws := w.workspace("quickstart", "ready", "prewarm")
		callback, err := w.instances.Callback(t.Context(), database.Job{WorkspaceID: ws.ID, Incarnation: 1, Attempt: 1}, agent)
		require.NoError(t, err)
		a := w.call(callback.Token, http.MethodPost, "/api/v1/instance/status", `{"status": "failed", "message": "no tools"}`)
		require.Equal(t, http.StatusOK, a.status, a.body)
		shown, err := w.as("owner").Workspace(t.Context(), ws.Name)
		require.NoError(t, err)
		require.Equal(t, name, shown.State)
		require.Equal(t, "no tools", shown.Agent.Message, "it is shown all the same")
	}
}

// Only an instance gets the agent, for its own platform or for one that somebody put onto the server.
func TestDownloadInstanceAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("quickstart", "starting", "prewarm")
	token := w.instanceToken(ws.ID, 1, 1)
	const path = "/api/v1/instance/agent?os="
	require.Equal(t, http.StatusUnauthorized, w.call("", http.MethodGet, path+"linux", "").status)
	require.Equal(t, http.StatusForbidden, w.call(w.token["owner"], http.MethodGet, path+"linux", "").status)

	a := w.call(token, http.MethodGet, path+runtime.GOOS+"&arch="+runtime.GOARCH, "")
	require.Equal(t, http.StatusOK, a.status)
	self, err := os.Executable()
	require.NoError(t, err)
	info, err := os.Stat(self)
	require.NoError(t, err)
	require.InDelta(t, info.Size(), len(a.body), 1024, "white space at the end apart")
	require.True(t, strings.HasPrefix(a.body, "\x7fELF"))

	a = w.call(token, http.MethodGet, path+"plan9&arch=arm", "")
	require.Equal(t, http.StatusUnprocessableEntity, a.status)
	require.Contains(t, a.problem(t).Detail, "prewarm-plan9-arm")
	require.Equal(t, http.StatusUnprocessableEntity, w.call(token, http.MethodGet, path+"..%2f..&arch=arm", "").status)
	require.NoError(t, os.WriteFile(filepath.Join(w.instances.Binaries, "prewarm-plan9-arm"), []byte("nine"), 0o600))
	require.Equal(t, "nine", w.call(token, http.MethodGet, path+"plan9&arch=arm", "").body)
}
