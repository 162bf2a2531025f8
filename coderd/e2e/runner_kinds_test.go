package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

var updateKinds = flag.Bool("update", false, "write the table of docs/forges.md again")

// runnerKind is a way in which runners come to know a forge. Each is a forge of its own, with a private authority.
type runnerKind struct {
	name string // in the table
	id   string
	forgetest.Options

	forge     *forgetest.Forge
	authority string
}

func runnerKinds() []*runnerKind {
	return []*runnerKind{
		{name: "GitHub, just-in-time configuration", id: "jit"},
		{name: "GitHub, registration token", id: "token", Options: forgetest.Options{OldServer: true}},
		{name: "Gitea, registration token", id: "gitea", Options: forgetest.Options{Gitea: true}},
	}
}

// runnerScope is what runners are of, and a repository of it.
type runnerScope struct{ scope, path, repository string }

var runnerScopes = []runnerScope{
	{"repository", "solo/shop", "solo/shop"}, {"organization", "acme", "acme/app"}, {"enterprise", "big", "big/app"},
}

// runnerPlace is a provider, or a way to use one: a column of the table.
type runnerPlace struct {
	name     string // in the table
	id       string
	provider string // in the configuration; empty: it is there already
	template string // what its template says beside name and presets
	slow     bool   // its workspaces take long to boot
	// refused is how apply refuses a template of runners; empty: it takes them.
	refused string
	// lacks is why one kind is not to be had, as its first create says; nil: all are.
	lacks func(k *runnerKind) string
}

// runnerPlaces are all that there are. Another provider that runs agents is one more entry here.
func runnerPlaces(t *testing.T, d debian, engine *dockertest.Engine, network string) []runnerPlace {
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
	noDownload := func(k *runnerKind) string {
		if k.Gitea {
			return "the forge offers no download of its runner"
		}
		return ""
	}
	return []runnerPlace{
		{
			name: "`local`", id: "local",
			template: fmt.Sprintf(trusting, filepath.Join(d.dir, "runner", "bin", "runner")) + "\n    spec: {command: [sleep, infinity]}",
		},
		{
			name: "`docker`", id: "containers", slow: true,
			provider: fmt.Sprintf("{name: containers, kind: docker, maximum: 3, config: {host: %q, network: %q}}", engine.Host, network),
			template: fmt.Sprintf(trusting, "runner") + fmt.Sprintf("\n    spec: {image: %q, pull: never}", debianImage),
		},
		{
			name: "`external`, v0.1.1", id: "ext-schema", slow: true, provider: external("ext-schema", "", ""),
			template: "agent: {runner: [runner]}\n    " + machine,
		},
		{
			name: "`external`, v0.1.0, `install_script`", id: "ext-old", slow: true,
			provider: external("ext-old", "v0.1.0", ", install_script: runner_install_template"),
			template: "agent: {runner: [runner]}\n    " + machine,
		},
		{
			name: "`external`, v0.1.0, no agent", id: "ext-own", slow: true, provider: external("ext-own", "v0.1.0", ""), template: machine,
			lacks: noDownload,
		},
		{
			name: "`hosts`", id: "fleet",
			provider: fmt.Sprintf("{name: fleet, kind: hosts, config: %s}", hoststest.Start(t, 3).Config(t, nil)),
			template: fmt.Sprintf(trusting, filepath.Join(d.dir, "runner", "bin", "runner")) + "\n    spec: {reset: 'true'}",
		},
		{
			name: "`sim`", id: "sim", provider: "{name: sim, kind: sim}",
			template: "agent: {runner: [runner]}\n    spec: {}", refused: "cannot run an agent in its workspaces",
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
	kinds := runnerKinds()
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond, Listen: gateway.String() + ":0",
	})
	c := server.Client
	for _, k := range kinds {
		k.connect(t, server, d, gateway.String())
	}

	var document strings.Builder
	document.WriteString("providers:\n")
	for _, p := range places {
		if p.refused == "" && p.provider != "" {
			fmt.Fprintf(&document, "  - %s\n", p.provider)
		}
	}
	document.WriteString("templates:\n")
	for _, p := range places {
		if p.refused == "" {
			document.WriteString(p.templateOf(kinds))
		}
	}
	_, err := c.Apply(ctx, sdk.ApplyRequest{Document: document.String()})
	require.NoError(t, err, document.String())

	page := filepath.Join("..", "..", "docs", "forges.md")
	became := tableIn(t, page, places, kinds) // what is not run stays as it is
	var mu sync.Mutex
	var cells sync.WaitGroup
	for at, p := range places {
		if p.refused != "" {
			_, err := c.Apply(ctx, sdk.ApplyRequest{
				Document: "providers:\n  - " + p.provider + "\ntemplates:\n" + p.templateOf(kinds), DryRun: true,
			})
			require.ErrorContains(t, err, p.refused, p.name)
		}
		for i, k := range kinds {
			for j, s := range runnerScopes {
				if p.slow && (at+i+j)%len(runnerScopes) != 0 && !*updateKinds && rounds(1) == 1 {
					continue
				}
				cells.Go(func() {
					outcome := "no"
					if p.refused == "" {
						outcome = k.run(t, server, p, s)
					}
					mu.Lock()
					defer mu.Unlock()
					became[[3]string{p.id, k.id, s.scope}] = outcome
				})
			}
		}
	}
	cells.Wait()
	for _, k := range kinds {
		assert.Empty(t, k.forge.Judge().KilledBusy)
		assert.Empty(t, k.forge.Judge().RemovedBusy)
	}
	if !t.Failed() {
		holdTable(t, page, tableOf(places, kinds, became))
	}
}

// connect starts the forge, and has the server know its entities: one for each scope.
func (k *runnerKind) connect(t *testing.T, server *e2etest.Server, d debian, address string) {
	t.Helper()
	ctx := t.Context()
	k.TLS, k.authority = privateTLS(t, address)
	k.Address, k.Token, k.Package = address+":0", "token-of-tests", d.Runner
	var err error
	k.forge, err = forgetest.Start(context.WithoutCancel(ctx), k.Options)
	require.NoError(t, err)
	t.Cleanup(k.forge.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: jobs: %+v; runners: %v", k.name, k.forge.Records(), k.forge.RunnerNames())
		}
	})
	kind := "github"
	if k.Gitea {
		kind = "gitea"
	}
	_, err = server.Client.PutForgeCredential(ctx, k.id, sdk.PutForgeCredential{
		Kind: kind, URL: k.forge.API, Token: k.Token, CABundle: &k.authority,
	})
	require.NoError(t, err)
	for _, s := range runnerScopes {
		put := sdk.PutForgeEntity{Scope: s.scope, Path: s.path, Credential: k.id}
		if k.Gitea && s.scope == "enterprise" {
			put.Path = "" // the whole instance
		}
		entity := k.id + "-" + s.scope
		saved, err := server.Client.PutForge(ctx, entity, put)
		require.NoError(t, err, entity)
		if s.scope == "enterprise" && !k.Gitea {
			k.forge.AddHook("enterprises/"+s.path, server.URL+"/webhooks/"+entity, saved.WebhookSecret)
			continue
		}
		_, err = server.Client.InstallForgeHook(ctx, entity)
		require.NoError(t, err, entity)
	}
}

func (p runnerPlace) templateOf(kinds []*runnerKind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: on-%s\n    provider: %s\n    boot_timeout: 10m\n    %s\n    presets:\n", p.id, p.id, p.template)
	for _, k := range kinds {
		for _, s := range runnerScopes {
			fmt.Fprintf(&b, "      - {name: %s, prebuilds: {instances: 0}, runner: {forge: %s, labels: [self-hosted, %s]}}\n",
				k.preset(s), k.preset(s), p.label(k, s))
		}
	}
	return b.String()
}

// preset is the name of the preset and of its entity.
func (k *runnerKind) preset(s runnerScope) string { return k.id + "-" + s.scope }

func (p runnerPlace) label(k *runnerKind, s runnerScope) string { return p.id + "-" + k.preset(s) }

// run queues a job for one cell, and says what came of it.
func (k *runnerKind) run(t *testing.T, server *e2etest.Server, p runnerPlace, s runnerScope) string {
	ctx, cell := t.Context(), fmt.Sprintf("%s of %s on %s", k.name, s.scope, p.name)
	job := k.forge.Queue(forgetest.Work{
		Repository: s.repository, Labels: []string{"self-hosted", p.label(k, s)}, For: 100 * time.Millisecond,
	})[0]
	if p.lacks != nil && p.lacks(k) != "" {
		assert.Eventually(t, func() bool {
			preset, err := server.Client.Preset(ctx, "on-"+p.id, k.preset(s))
			return err == nil && strings.Contains(preset.Fault, p.lacks(k))
		}, 5*time.Minute, 100*time.Millisecond, "%s is refused: %s", cell, p.lacks(k))
		return "no"
	}
	assert.Eventually(t, func() bool {
		for _, r := range k.forge.Records() {
			if r.ID == job {
				return r.State == forge.Completed && r.Conclusion == "success" && r.HandedOut == 1
			}
		}
		return false
	}, 5*time.Minute, 100*time.Millisecond, "%s: its job ends well", cell)
	assert.Eventually(t, func() bool {
		list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{Template: "on-" + p.id, Preset: k.preset(s)})
		return err == nil && len(list.Workspaces) == 0
	}, time.Minute, 100*time.Millisecond, "%s: its workspace is gone", cell)
	return "yes"
}

func tableOf(places []runnerPlace, kinds []*runnerKind, became map[[3]string]string) string {
	var b strings.Builder
	b.WriteString("| runner | scope |")
	for _, p := range places {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(places)+2) + "\n")
	for _, k := range kinds {
		for _, s := range runnerScopes {
			fmt.Fprintf(&b, "| %s | %s |", k.name, s.scope)
			for _, p := range places {
				fmt.Fprintf(&b, " %s |", became[[3]string{p.id, k.id, s.scope}])
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// cutTable finds a page's table, between two comments.
func cutTable(t *testing.T, page string) (before, table, after string) {
	t.Helper()
	const begin, end = "<!-- what runs where -->\n", "<!-- end of what runs where -->"
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(raw), begin)
	table, after, ends := strings.Cut(rest, end)
	require.True(t, found && ends, "%s has no place for the table", page)
	return before + begin, table, end + after
}

// tableIn reads a page's table.
func tableIn(t *testing.T, page string, places []runnerPlace, kinds []*runnerKind) map[[3]string]string {
	t.Helper()
	became := map[[3]string]string{}
	_, table, _ := cutTable(t, page)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for _, k := range kinds {
			for _, s := range runnerScopes {
				if len(cells) != len(places)+2 || strings.TrimSpace(cells[0]) != k.name || strings.TrimSpace(cells[1]) != s.scope {
					continue
				}
				for i, p := range places {
					became[[3]string{p.id, k.id, s.scope}] = strings.TrimSpace(cells[i+2])
				}
			}
		}
	}
	return became
}

// holdTable compares a page's table with what is true.
func holdTable(t *testing.T, page, table string) {
	t.Helper()
	before, is, after := cutTable(t, page)
	if *updateKinds {
		require.NoError(t, os.WriteFile(page, []byte(before+table+after), 0o644))
		return
	}
	require.Equal(t, table, is, "run go test ./coderd/e2e -run '^%s$' -update", t.Name())
}
