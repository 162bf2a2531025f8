package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/runnertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// runnerPlaces are all but kubernetes, whose tests have a cluster. Another provider that runs agents is one more entry here.
func runnerPlaces(t *testing.T, d debian, engine *dockertest.Engine, network string) []runnertest.Place {
	t.Helper()
	dir := t.TempDir()
	executable := filepath.Join(dir, "provider")
	require.NoError(t, externaltest.Build(executable))
	external := func(id, protocol, settings string) string {
		config, cloud := filepath.Join(dir, id+".json"), filepath.Join(dir, id)
		require.NoError(t, externaltest.Config{Root: cloud, Protocol: protocol, Boots: true, Machine: d.Machine}.Write(config))
		halting(t, cloud)
		return fmt.Sprintf("{name: %s, kind: external, maximum: 3, inventory_every: 1s, config: {executable: %q, config_file: %q%s}}",
			id, executable, config, settings)
	}
	const machine = "spec: {image: debian, flavor: small, user_data: {disable_updates_on_boot: true}}"
	// What the agent of an image runs is told whom to trust; install.sh has the system of an instance trust them.
	const trusting = `agent: {runner: [sh, -c, 'SSL_CERT_FILE="$PREWARM_FORGE_CA_FILE" exec %s']}`
	noDownload := func(k *runnertest.Kind) string {
		if k.Gitea {
			return "the forge offers no download of its runner"
		}
		return ""
	}
	return []runnertest.Place{
		{
			Column: runnertest.Local,
			Body:   fmt.Sprintf(trusting, filepath.Join(d.dir, "runner", "bin", "runner")) + "\n    spec: {command: [sleep, infinity]}",
		},
		{
			Column: runnertest.Docker, Slow: true,
			Provider: fmt.Sprintf("{name: containers, kind: docker, maximum: 3, config: {host: %q, network: %q}}", engine.Host, network),
			Body:     fmt.Sprintf(trusting, "runner") + fmt.Sprintf("\n    spec: {image: %q, pull: never}", debianImage),
		},
		{
			Column: runnertest.External, Slow: true, Provider: external("ext-schema", "", ""),
			Body: "agent: {runner: [runner]}\n    " + machine,
		},
		{
			Column: runnertest.ExternalOld, Slow: true,
			Provider: external("ext-old", "v0.1.0", ", install_script: runner_install_template"),
			Body:     "agent: {runner: [runner]}\n    " + machine,
		},
		{
			Column: runnertest.ExternalOwn, Slow: true, Provider: external("ext-own", "v0.1.0", ""), Body: machine,
			Lacks: noDownload,
		},
		{
			Column:   runnertest.Hosts,
			Provider: fmt.Sprintf("{name: fleet, kind: hosts, config: %s}", hoststest.Start(t, 3).Config(t, nil)),
			Body:     fmt.Sprintf(trusting, filepath.Join(d.dir, "runner", "bin", "runner")) + "\n    spec: {reset: 'true'}",
		},
		{
			Column: runnertest.Sim, Provider: "{name: sim, kind: sim}",
			Body: "agent: {runner: [runner]}\n    spec: {}", Refused: "cannot run an agent in its workspaces",
		},
	}
}

// Every kind of runner runs a job on every provider that can host one. What came of it is a table in docs/forges.md. Runners are
// made for jobs that wait, so each cell is one workspace, which goes with its job. Of providers whose workspaces take long to boot
// one scope of each kind is run; `make test-long` runs all, and so does -update, which writes the table.
func TestRunners_everyKindOnEveryProvider(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newDebian(t)
	engine := dockertest.Start(t)
	d.image(t, engine)
	network, gateway := engine.Network(t)
	places := runnerPlaces(t, d, engine, network)
	kinds := runnertest.Kinds()
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond, Listen: gateway.String() + ":0",
	})
	c := server.Client
	for _, k := range kinds {
		k.Connect(t, server, d.Runner, gateway.String())
	}

	var document strings.Builder
	document.WriteString("providers:\n")
	for _, p := range places {
		if p.Refused == "" && p.Provider != "" {
			fmt.Fprintf(&document, "  - %s\n", p.Provider)
		}
	}
	document.WriteString("templates:\n")
	for _, p := range places {
		if p.Refused == "" {
			document.WriteString(p.Template(kinds))
		}
	}
	_, err := c.Apply(ctx, sdk.ApplyRequest{Document: document.String()})
	require.NoError(t, err, document.String())

	became := map[runnertest.Cell]string{}
	var mu sync.Mutex
	var cells sync.WaitGroup
	for at, p := range places {
		if p.Refused != "" {
			_, err := c.Apply(ctx, sdk.ApplyRequest{
				Document: "providers:\n  - " + p.Provider + "\ntemplates:\n" + p.Template(kinds), DryRun: true,
			})
			require.ErrorContains(t, err, p.Refused, p.Name)
		}
		for i, k := range kinds {
			for j, s := range runnertest.Scopes {
				if p.Slow && (at+i+j)%len(runnertest.Scopes) != 0 && !*runnertest.Update && rounds(1) == 1 {
					continue
				}
				cells.Go(func() {
					outcome := "no"
					if p.Refused == "" {
						outcome = k.Run(t, server, p, s)
					}
					mu.Lock()
					defer mu.Unlock()
					became[p.At(k, s)] = outcome
				})
			}
		}
	}
	cells.Wait()
	for _, k := range kinds {
		assert.Empty(t, k.Forge.Judge().KilledBusy)
		assert.Empty(t, k.Forge.Judge().RemovedBusy)
	}
	if !t.Failed() {
		runnertest.Hold(t, kinds, became)
	}
}
