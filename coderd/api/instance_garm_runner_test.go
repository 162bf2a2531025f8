package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// jitOf is a configuration as GitHub makes it: the nth.
func jitOf(n int) string {
	raw, _ := json.Marshal(map[string][]byte{
		".runner": fmt.Appendf(nil, `{"agentId": 5, "of": %d}`, n), ".credentials": fmt.Appendf(nil, "very secret %d", n),
		".credentials_rsaparams": fmt.Appendf(nil, "very secret parameters %d", n),
	})
	return base64.StdEncoding.EncodeToString(raw)
}

// P5: the files of a just-in-time configuration are of one, each is read once, on any replica, and nothing of it is in the clear
// in the database.
func TestInstanceCredentials(t *testing.T) {
	t.Parallel()
	w, f := withRunners(t)
	f.files = true
	row := w.runner("starting")
	token := w.instanceToken(row.ID, 1, 1)
	get := func(path string) answer { return w.call(token, http.MethodGet, metadata+path, "") }
	require.Equal(t, http.StatusUnprocessableEntity, get("/credentials/passwd").status)
	a := get("/credentials/credentials/")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, "very secret 1", strings.TrimSpace(a.body))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.NotContains(t, w.dump(), "very secret")
	require.Equal(t, http.StatusConflict, get("/credentials/credentials").status, "once")
	require.Equal(t, http.StatusConflict, w.call(token, http.MethodGet, runnerConfiguration, "").status, "it was handed out")
	require.Equal(t, http.StatusConflict, get("/runner-registration-token/").status, "it was handed out")

	var got, refused atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch a := get("/credentials/runner"); a.status {
			case http.StatusOK:
				got.Add(1)
			case http.StatusConflict:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, got.Load())
	require.EqualValues(t, 7, refused.Load())
	a = get("/credentials/credentials_rsaparams")
	require.Equal(t, "very secret parameters 1", strings.TrimSpace(a.body))
	require.Equal(t, 1, f.registered)
	var kept int
	require.NoError(t, w.store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM forge_runners WHERE files IS NOT NULL").Scan(&kept))
	require.Zero(t, kept, "with the last file nothing is kept")

	// What was not read is good for who is starting alone.
	late := w.runner("starting")
	token = w.instanceToken(late.ID, 1, 1)
	require.Equal(t, http.StatusOK, get("/credentials/runner").status)
	w.exec("UPDATE workspaces SET state = 'ready', ready_at = now() WHERE id = $1", late.ID)
	require.Equal(t, http.StatusConflict, get("/credentials/credentials").status)

	f.old = true
	token = w.instanceToken(w.runner("starting").ID, 1, 1)
	require.Equal(t, http.StatusNotFound, get("/credentials/runner").status)
	a = get("/runner-registration-token/")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, "a secret token", strings.TrimSpace(a.body), "and no JSON")
	require.Equal(t, http.StatusConflict, get("/runner-registration-token").status, "once")
	require.NotContains(t, w.dump(), "a secret token")
	token = w.instanceToken(w.runner("provisioning").ID, 1, 1)
	require.Equal(t, http.StatusServiceUnavailable, get("/runner-registration-token/").status)
	require.Equal(t, http.StatusServiceUnavailable, get("/credentials/runner").status)
}

// What scripts read besides: the service, the unit, the authorities one by one, and what the runner is called.
func TestInstanceServiceOfRunner(t *testing.T) {
	t.Parallel()
	w, _ := withRunners(t)
	const one, two = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"
	w.exec("UPDATE forge_credentials SET ca_bundle = $1", one+two)
	row := w.runner("starting")
	token := w.instanceToken(row.ID, 1, 1)
	get := func(path string) answer { return w.call(token, http.MethodGet, metadata+path, "") }
	require.Equal(t, "actions.runner.acme."+row.Name, strings.TrimSpace(get("/system/service-name").body))
	unit := get("/systemd/unit-file?runAsUser=builder").body
	at := "/home/" + "builder" + "/actions-runner"
	require.Contains(t, unit, "User=builder\nWorkingDirectory="+at+"\nExecStart="+at+"/runsvc.sh\n")
	require.Equal(t, http.StatusUnprocessableEntity, get("/systemd/unit-file?runAsUser=a%0AExecStartPre=x").status)
	var bundle sdk.CertificateBundle
	require.NoError(t, json.Unmarshal([]byte(get("/system/cert-bundle").body), &bundle))
	require.Equal(t, map[string][]byte{"prewarm-1.crt": []byte(one), "prewarm-2.crt": []byte(two)}, bundle.RootCertificates)
	var m sdk.RunnerMetadata
	require.NoError(t, json.Unmarshal([]byte(get("/runner-metadata").body), &m))
	require.Equal(t, sdk.RunnerMetadata{
		Name: row.Name, ForgeType: "github", Labels: []string{"linux"}, Group: "g", ServiceName: "actions.runner.acme." + row.Name,
	}, m)
}
