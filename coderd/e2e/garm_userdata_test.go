package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudbase/garm-provider-common/cloudconfig"
	"github.com/cloudbase/garm-provider-common/params"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/runnertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// User data as garm-provider-common makes it, byte for byte, makes a Debian a runner of a forge with a private authority, by the
// files of a just-in-time configuration and by a token of registration. The runner takes a job and ends it.

// An executable that speaks v0.1.0 only, has no schema, and is busy for the first deletes of each instance. The script of its
// first instance reports that it failed, which costs that instance and nothing else.
func TestGARMUserData_external(t *testing.T) {
	t.Parallel()
	d := newDebian(t)
	for name, old := range map[string]bool{"jit": false, "token": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			garmExternal(t, d, old)
		})
	}
}

func garmExternal(t *testing.T, d debian, old bool) {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	executable, config, cloud := filepath.Join(dir, "provider"), filepath.Join(dir, "config.json"), filepath.Join(dir, "cloud")
	require.NoError(t, externaltest.Build(executable))
	require.NoError(t, externaltest.Config{Root: cloud, Protocol: "v0.1.0", Boots: true, Busy: 2, Machine: d.Machine}.Write(config))
	halting(t, cloud)
	w := newForgeWorld(t, forgetest.Options{Package: d.Runner, PackageAbsent: 1, OldServer: old}, "127.0.0.1", e2etest.Options{})
	_, err := w.client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - {name: cloud, kind: external, inventory_every: 1s, config: {executable: %q, config_file: %q}}
templates:
  - name: runners
    provider: cloud
    boot_timeout: 5m
    spec: {image: debian, flavor: small, user_data: {disable_updates_on_boot: true}}
    presets:
      - name: linux
        prebuilds: {instances: 1}
        runner: {forge: acme, labels: [self-hosted, linux], maximum: 2}
`, executable, config)})
	require.NoError(t, err)

	name := w.idle("one of which the script did not fail")
	boots := bootstraps(t, cloud)
	require.Len(t, boots, 2, "the one whose download failed, and the one in its place")
	for _, b := range boots {
		require.JSONEq(t, "{}", string(b.ExtraSpecs), "the installer is the executable's own")
		require.Equal(t, w.authority, string(b.CACertBundle))
		require.Equal(t, w.forge.URL+"/acme", b.RepoURL)
		require.Equal(t, !old, b.JitConfigEnabled)
	}
	served := boots[1]
	require.True(t, strings.HasPrefix(served.Name, name+"-"))
	require.Equal(t, []string{served.Name}, w.forge.RunnerNames(), "it has the name of its instance at the forge")
	stock, err := cloudconfig.GetCloudConfig(served, served.Tools[0], served.Name)
	require.NoError(t, err)
	require.Equal(t, stock, content(t, filepath.Join(cloud, "machines", served.Name), "user-data"))

	w.works(name)
	eventually(t, "its machine is gone, though the executable was busy", func() bool {
		_, err := os.Stat(filepath.Join(cloud, "machines", served.Name))
		return os.IsNotExist(err)
	})
	w.idle("one in its place")
	require.Len(t, bootstraps(t, cloud), 3, "created = initial + failed + claims")
	for _, token := range tokensOf(t, cloud) {
		require.NotContains(t, w.server.Log(), token)
	}
}

// In a container the agent hands the user data over, in place of a cloud.
func TestGARMUserData_docker(t *testing.T) {
	t.Parallel()
	d := newDebian(t)
	engine := dockertest.Start(t)
	d.image(t, engine)
	for name, old := range map[string]bool{"jit": false, "token": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			garmDocker(t, d, engine, name, old)
		})
	}
}

func garmDocker(t *testing.T, d debian, engine *dockertest.Engine, by string, old bool) {
	t.Helper()
	network, gateway := engine.Network(t)
	w := newForgeWorld(t, forgetest.Options{Package: d.Runner, OldServer: old}, gateway.String(), e2etest.Options{})
	_, err := w.client.Apply(t.Context(), sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - {name: docker, kind: docker, config: {host: %q, network: %q}}
templates:
  - name: runners
    provider: docker
    boot_timeout: 5m
    agent:
      on_start: [sh, -ec, 'userdata "$@" > /run/user-data; first-boot /run/user-data; cmp /run/user-data /var/lib/cloud/instance/user-data.txt', sh, %q, /.prewarm/token, %q, %q, %q]
    spec: {image: %q, pull: never, privileges: {new_privileges: true}} # its script calls sudo
    presets:
      - name: linux
        prebuilds: {instances: 1}
        runner: {forge: acme, labels: [self-hosted, linux], maximum: 2}
`, engine.Host, network, w.server.URL, w.forge.URL+"/acme", w.forge.URL+"/runner.tar.gz", by, debianImage)})
	require.NoError(t, err)
	name := w.idle("one whose script is done")
	require.Equal(t, []string{name}, w.forge.RunnerNames())
	w.works(name)
	w.idle("one in its place")
}

// forgeWorld is a server with a forge of a private authority.
type forgeWorld struct {
	t         *testing.T
	forge     *forgetest.Forge
	authority string
	server    *e2etest.Server
	client    *sdk.Client
}

// newForgeWorld has the server and its forge, the organization acme, at one address.
func newForgeWorld(t *testing.T, f forgetest.Options, address string, s e2etest.Options) *forgeWorld {
	t.Helper()
	ctx := t.Context()
	w := &forgeWorld{t: t}
	f.TLS, w.authority = runnertest.PrivateTLS(t, address)
	f.Address, f.Roots, f.Token = address+":0", []string{"orgs/acme"}, "token-of-tests"
	var err error
	w.forge, err = forgetest.Start(context.WithoutCancel(ctx), f)
	require.NoError(t, err)
	t.Cleanup(w.forge.Close)
	s.PostgresURL, s.Tick, s.Listen = dbtest.URL(t), 300*time.Millisecond, address+":0"
	w.server = e2etest.Start(t, s)
	w.client = w.server.Client
	_, err = w.client.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{
		Kind: "github", URL: w.forge.API, Token: f.Token, CABundle: &w.authority,
	})
	require.NoError(t, err)
	_, err = w.client.PutForge(ctx, "acme", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acme"})
	require.NoError(t, err)
	_, err = w.client.InstallForgeHook(ctx, "acme")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("jobs: %+v; runners: %v", w.forge.Records(), w.forge.RunnerNames())
		}
	})
	return w
}

// idle waits for the one workspace that is ready, since its forge sees its runner idle, and returns its name.
func (w *forgeWorld) idle(what string) (name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		list, err := w.client.Workspaces(w.t.Context(), sdk.WorkspaceFilter{State: "ready"})
		if err != nil || len(list.Workspaces) != 1 || w.forge.Idle() != 1 {
			return false
		}
		name = list.Workspaces[0].Name
		return true
	}, 3*time.Minute, 50*time.Millisecond, what)
	return name
}

// works gives the idle runner a job, which claims it, and waits until the job has ended and its workspace is gone.
func (w *forgeWorld) works(name string) {
	w.t.Helper()
	ctx := w.t.Context()
	job := w.forge.Queue(forgetest.Work{Labels: []string{"self-hosted", "linux"}, For: untilEnded})[0]
	eventually(w.t, "its claim by the job", func() bool {
		shown, err := w.client.Workspace(ctx, name)
		return err == nil && shown.State == "claimed"
	})
	w.forge.End(job)
	eventually(w.t, "the job to end, and its workspace with it", func() bool {
		shown, err := w.client.Workspace(ctx, name)
		record := w.forge.Records()[0]
		return err == nil && (shown.State == "deleted" || shown.State == "deleting") && record.State == forge.Completed &&
			record.Conclusion == "success"
	})
	require.Empty(w.t, w.forge.Judge().KilledBusy)
	require.Empty(w.t, w.forge.Judge().RemovedBusy)
}

// halting ends the machines of a cloud with the test: instances outlive the server. It shows what they said if the test failed.
func halting(t *testing.T, cloud string) {
	t.Helper()
	t.Cleanup(func() {
		machines, _ := filepath.Glob(filepath.Join(cloud, "machines", "*"))
		for _, home := range machines {
			endSession(home)
			if t.Failed() {
				console, _ := os.ReadFile(filepath.Join(home, "console"))
				t.Logf("console of %s:\n%s", filepath.Base(home), console)
			}
		}
	})
}

// bootstraps are those that the executable was asked to create.
func bootstraps(t *testing.T, cloud string) (all []params.BootstrapInstance) {
	t.Helper()
	for line := range strings.Lines(content(t, cloud, "calls")) {
		var call externaltest.Call
		require.NoError(t, json.Unmarshal([]byte(line), &call))
		if call.Stdin != nil {
			var b params.BootstrapInstance
			require.NoError(t, json.Unmarshal(call.Stdin, &b))
			all = append(all, b)
		}
	}
	return all
}
