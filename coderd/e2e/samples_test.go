package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// A sample is a YAML block of a page, or a file of examples/, as a whole file that can be applied.
type sample struct {
	place    string // file and line
	document string
	parsed   sampleFile
}

type sampleFile struct {
	Providers []struct {
		Name, Kind string
		Config     map[string]any
	}
	Templates []struct {
		Name, Provider string
		Spec           map[string]any
		Agent          map[string]any
		Presets        []struct {
			Name      string
			Runner    map[string]any
			Prebuilds *struct{ Instances any }
		}
	}
}

var (
	yamlBlock       = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")
	leadingComments = regexp.MustCompile(`^(?:#.*\n|\s*\n)*`)
)

// readSamples finds all YAML in README.md, docs/ and examples/. A block that is no whole file is a part of one; its first key
// says of which part: of a template (spec, agent, claims, presets, rollout) or of a preset (prebuilds, runner, parameters).
func readSamples(t *testing.T, root string) (samples []sample) {
	t.Helper()
	pages := []string{filepath.Join(root, "README.md")}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && filepath.Base(path) != "kubernetes.md" { // what these have needs a cluster
			pages = append(pages, path)
		}
		return err
	}))
	for _, page := range pages {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		require.Len(t, yamlBlock.FindAllIndex(content, -1), bytes.Count(content, []byte("```yaml")), "%s: a YAML block that is not closed", name)
		for _, at := range yamlBlock.FindAllSubmatchIndex(content, -1) {
			place := fmt.Sprintf("%s:%d", name, 1+bytes.Count(content[:at[0]], []byte("\n")))
			samples = append(samples, completed(t, place, string(content[at[4]:at[5]])))
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		samples = append(samples, completed(t, "examples/"+filepath.Base(file), string(content)))
	}
	return samples
}

// completed makes a whole file of a block.
func completed(t *testing.T, place, block string) sample {
	t.Helper()
	block = strings.TrimRight(block, " \n") + "\n"
	lines := strings.Split(block, "\n")
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, indent)
	}
	block = strings.Join(lines, "\n")
	var keys map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(block), &keys), place)
	indented := func(by int) string {
		return strings.ReplaceAll("\n"+strings.TrimSpace(block), "\n", "\n"+strings.Repeat(" ", by))[1:] + "\n"
	}
	kind := "local" // of the page's provider
	if page, ok := strings.CutPrefix(place, "docs/providers/"); ok {
		kind, _, _ = strings.Cut(page, ".md")
	}
	const spec = "    spec: {setup: [sh, -c, \"mkdir -p project\"], command: [sleep, infinity]}\n"
	template := "templates:\n  - name: sample\n    provider: " + kind + "\n"
	switch first, _, _ := strings.Cut(leadingComments.ReplaceAllString(block, ""), ":"); first {
	case "providers", "templates":
	case "spec":
		block = template + indented(4) + "    presets: [{name: default, prebuilds: {instances: 1}}]\n"
	case "agent", "claims", "rollout":
		preset := "{name: default, prebuilds: {instances: 1}}"
		if agent, ok := keys["agent"].(map[string]any); ok && agent["runner"] != nil {
			preset = "{name: default, prebuilds: {instances: 1}, runner: {forge: acme, labels: [linux]}}"
		}
		block = template + spec + indented(4) + "    presets: [" + preset + "]\n"
	case "presets":
		if kind == "hosts" {
			block = "templates:\n  - name: sample\n    provider: fleet\n    spec: {prepare: mkdir -p project, reset: \"true\"}\n" + indented(4)
			break
		}
		block = template + spec + indented(4)
	case "prebuilds", "runner", "parameters":
		block = template + spec + "    presets:\n      - name: default\n" + indented(8)
	default:
		require.Failf(t, "a YAML block that is neither a file nor a known part of one", "%s begins with %q", place, first)
	}
	s := sample{place: place, document: block}
	require.NoError(t, yaml.Unmarshal([]byte(block), &s.parsed), place)
	return s
}

// Every sample of the README, the documentation and the examples is applied to a server, and its pools become warm. What a
// sample needs that this machine has not (an image, an executable of GARM, machines behind SSH) is put in its place under the
// sample's own name. Not waited for are runners, which a forge must see first, and machines, which coderd/provider/hosts tests.
func TestSamples(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	root := filepath.Join("..", "..")
	engine := dockertest.Start(t)
	image := dockerExample(ctx, engine.Host, "--image")
	out, err := image.CombinedOutput()
	require.NoError(t, err, "%s", out)

	dir := t.TempDir()
	executable, config, cloud := filepath.Join(dir, "provider"), filepath.Join(dir, "config.json"), filepath.Join(dir, "cloud")
	require.NoError(t, externaltest.Build(executable))
	require.NoError(t, externaltest.Config{Root: cloud, Protocol: "v0.1.0", Boots: true}.Write(config))
	t.Cleanup(func() {
		machines, _ := filepath.Glob(filepath.Join(cloud, "machines", "*"))
		for _, home := range machines {
			endSession(home)
		}
	})
	key := filepath.Join(dir, "key")
	hoststest.NewKey(t, key)
	module := filepath.Join(dir, "vm") // which the command line would upload
	require.NoError(t, os.Mkdir(module, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(module, "main.tf"), []byte("output \"address\" { value = \"vm.example.com\" }\n"), 0o600))
	archive, err := modules.Pack(module)
	require.NoError(t, err)
	here := strings.NewReplacer(
		"/srv/terraform-mirror", e2etest.Public(t), "./vm", modules.Digest(archive),
		"/usr/local/bin/garm-provider-incus", executable, "/usr/local/bin/garm-provider-aws", executable,
		"/etc/prewarm/incus.toml", config, "/etc/prewarm/aws.toml", config,
		"/run/secrets/aws-key-id", key, "/run/secrets/aws-key", key, "/etc/prewarm/id_ed25519", key,
	)

	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond, Env: []string{"DOCKER_HOST=" + engine.Host},
	})
	apply := func(t *testing.T, document string) {
		t.Helper()
		_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: document})
		require.NoError(t, err, document)
	}
	forge, err := forgetest.Start(context.WithoutCancel(ctx), forgetest.Options{Roots: []string{"orgs/acme"}, Token: "token-of-tests"})
	require.NoError(t, err)
	t.Cleanup(forge.Close)
	_, err = server.Client.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", URL: forge.API, Token: "token-of-tests"})
	require.NoError(t, err)
	_, err = server.Client.PutForge(ctx, "acme", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acme"})
	require.NoError(t, err)
	_, err = server.Client.UploadModule(ctx, modules.Digest(archive), archive)
	require.NoError(t, err)
	samples := readSamples(t, root)
	for _, s := range samples { // a page may explain its provider before or after its templates
		if len(s.parsed.Providers) > 0 {
			apply(t, providersOnly(t, here.Replace(s.document)))
		}
	}
	warm := 0
	for _, s := range samples {
		t.Run(s.place, func(t *testing.T) {
			for _, template := range s.parsed.Templates {
				if image, ok := template.Spec["image"].(string); ok && template.Provider == "docker" {
					_, err := engine.Client.ImageTag(ctx, client.ImageTagOptions{Source: "prewarm.example/hello:1", Target: image})
					require.NoError(t, err)
				}
			}
			t.Cleanup(func() { // the next one may have a template of the same name
				for _, template := range s.parsed.Templates {
					_ = server.Client.DeleteTemplate(context.WithoutCancel(ctx), template.Name)
				}
				eventually(t, "nothing is left", func() bool {
					left, err := server.Client.Workspaces(context.WithoutCancel(ctx), sdk.WorkspaceFilter{})
					for _, w := range left.Workspaces {
						if w.State == "deleting" && w.Provider == "sim" { // where one call of a hundred hangs for minutes
							_, _ = server.Client.DeleteWorkspace(context.WithoutCancel(ctx), w.Name, true)
						}
					}
					return err == nil && len(left.Workspaces) == 0
				})
			})
			apply(t, here.Replace(s.document))
			for _, template := range s.parsed.Templates {
				for _, p := range template.Presets {
					if p.Prebuilds == nil || p.Runner != nil || template.Provider == "fleet" {
						continue
					}
					warm++
					// A call that hangs, as one of a hundred does at `sim`, is given up after minutes.
					require.Eventually(t, func() bool {
						shown, err := server.Client.Preset(ctx, template.Name, p.Name)
						return err == nil && shown.Desired > 0 && shown.Eligible == shown.Desired
					}, 8*time.Minute, 20*time.Millisecond, "%s/%s is not warm", template.Name, p.Name)
				}
			}
		})
	}
	require.Greater(t, warm, 12, "the samples are not there")
}

// providersOnly is the first part of a file.
func providersOnly(t *testing.T, document string) string {
	t.Helper()
	var parsed struct {
		Providers []yaml.MapSlice `yaml:"providers"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(document), &parsed))
	out, err := yaml.Marshal(parsed)
	require.NoError(t, err)
	return string(out)
}
