package docker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

const callbackPath = "/api/v1/instance/status"

// The agent runs what the image or the spec would have run; its token is in a file that the container's user alone may
// read, and in nothing that the engine shows.
func TestAgent(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	network, gateway := e.Network(t)
	for name, test := range map[string]struct {
		callback, host, fields string
		url, command, owner    string
	}{
		"image's command": {
			callback: "https://prewarm.example:8443", url: "https://prewarm.example:8443", command: "/bin/guest serve", owner: "0:0",
		},
		"spec's command": {
			callback: "http://127.0.0.1:3000", host: gateway.String(), url: fmt.Sprintf("http://%s:3000", gateway),
			fields: `, "command": ["listen", "80"], "user": "guest"`, command: "/bin/guest listen 80", owner: "1000:1000",
		},
		"entrypoint": {
			callback: "http://127.0.0.1:3000", host: "relay:80", url: "http://relay:80",
			fields: `, "entrypoint": ["/bin/guest", "hang"], "user": "7:8"`, command: "/bin/guest hang", owner: "7:8",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const token = "a-secret-of-this-test"
			p := open(t, e, withInner(t, docker.Config{Network: network, CallbackHost: test.host}))
			req := request("agent", `{"image": "`+e.Image(t)+`", "pull": "never"`+test.fields+`}`)
			req.Callback = provider.Callback{CallbackURL: test.callback + callbackPath, Token: token, CABundle: []byte("pem\n")}
			w := createAs(t, e, p, req)
			require.Equal(t, "-rw------- "+test.owner+"\ndrwx------ "+test.owner+"\n",
				modes(w.run("stat", "/.prewarm/token", "/.prewarm/claim")))
			require.Equal(t, token+"\npem\n", w.run("cat", "/.prewarm/token", "/.prewarm/authorities.pem"))
			require.Contains(t, w.run("env"), "PREWARM_AGENT_URL="+test.url+"\n")
			require.Contains(t, w.run("ps"), "1 /.prewarm/prewarm agent -- "+test.command+" \n")
			shown, err := e.Client.ContainerInspect(t.Context(), w.ProviderID, client.ContainerInspectOptions{})
			require.NoError(t, err)
			require.Contains(t, string(shown.Raw), "PREWARM_AGENT_TOKEN_FILE")
			require.NotContains(t, string(shown.Raw), token)
			again, err := p.Create(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, w.ProviderID, again.ProviderID)
		})
	}
}

// modes lets a directory's bits be seen as those of ls.
func modes(out string) string { return strings.ReplaceAll(out, "Lrw", "-rw") }

// A loopback address of the server's means another machine inside of a container: it is reached by the name of the
// engine's machine, unless the container shares that machine's network.
func TestCallbackOnLoopback(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	network, _ := e.Network(t)
	p := open(t, e, withInner(t, docker.Config{Network: network, Networks: []string{"host"}}))
	for networks, url := range map[string]string{
		fmt.Sprintf("[%q]", network): "http://host.docker.internal:3000", `["host"]`: "http://127.0.0.1:3000",
	} {
		req := request("loopback", `{"image": "`+e.Image(t)+`", "pull": "never", "networks": `+networks+`}`)
		req.Callback = provider.Callback{CallbackURL: "http://127.0.0.1:3000" + callbackPath, Token: "t"}
		w := createAs(t, e, p, req)
		is := w.inspect()
		require.Contains(t, is.Config.Env, "PREWARM_AGENT_URL="+url)
		if networks != `["host"]` {
			require.Equal(t, []string{"host.docker.internal:host-gateway"}, is.HostConfig.ExtraHosts)
		}
	}
	req := request("cut-off", `{"image": "`+e.Image(t)+`", "pull": "never", "networks": ["none"]}`)
	req.Callback = provider.Callback{CallbackURL: "http://127.0.0.1:3000" + callbackPath, Token: "t"}
	_, err := p.Create(t.Context(), req)
	require.True(t, provider.IsPermanent(err), "%v", err)
}

// A binary that cannot run in any container is refused, and it is said why.
func TestAgentBinaryMustBeStatic(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	for binary, says := range map[string]string{"/bin/sh": "CGO_ENABLED=0", "/etc/passwd": "read program"} {
		p := open(t, e, docker.Config{Network: "none", Networks: []string{"host"}, AgentBinary: binary})
		req := request("dynamic", `{"image": "`+e.Image(t)+`", "pull": "never", "networks": ["host"]}`)
		req.Callback = provider.Callback{CallbackURL: "http://127.0.0.1:3000" + callbackPath, Token: "t"}
		t.Cleanup(func() { _ = p.Delete(t.Context(), provider.Ref{Name: req.Name}) })
		_, err := p.Create(t.Context(), req)
		require.ErrorContains(t, err, says)
		require.True(t, provider.IsPermanent(err), "%v", err)
		require.NoError(t, p.Delete(t.Context(), provider.Ref{Name: req.Name}))
	}
}

// Configurations that are wrong are refused with what is wrong.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		`{"host": "/var/run/docker.sock"}`:     "unix:///path",
		`{"sockets": 1}`:                       "sockets",
		`{"tls": {"ca_file": "/etc/passwd"}}`:  "tcp://",
		`{"publish_address": "everywhere"}`:    "IP address",
		`{"callback_host": "http://x"}`:        "host:port",
		`{"registry_auth_file": "/no/such"}`:   "/no/such",
		`{"agent_binary": "prewarm"}`:          "absolute",
		`{"binds": [{"path": "/srv/../etc"}]}`: "/srv/../etc",
		`{"networks": ["container:db"]}`:       "container:db",
		`{"limits": {"memory": 5}}`:            "512m",
		`{"limits": {"cpus": -1}}`:             "below 0",
		`{"pull_every": 60}`:                   "duration",
	} {
		_, err := docker.ParseConfig(json.RawMessage(text))
		require.ErrorContains(t, err, says, text)
	}
	_, err := docker.ParseConfig(nil)
	require.NoError(t, err)
}
