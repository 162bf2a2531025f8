package templates_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// TestExamples applies every example, and those in the documentation, with the real providers.
func TestExamples(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	key := filepath.Join(root, "key")
	hoststest.NewKey(t, key)
	engine := "" // of the subtest that needs one
	registry := provider.NewRegistry(map[string]provider.Factory{
		"local": func(json.RawMessage) (provider.Provider, error) {
			return local.New(local.Options{Root: filepath.Join(root, "local"), Clock: quartz.NewReal(), Logger: slog.Make()})
		},
		"sim": func(config json.RawMessage) (provider.Provider, error) {
			opts, err := sim.Config(config)
			if err != nil {
				return nil, err
			}
			p, err := sim.New(opts)
			require.NoError(t, err)
			return p.Offered(), nil
		},
		"hosts": func(config json.RawMessage) (provider.Provider, error) {
			parsed, err := hosts.ParseConfig(bytes.ReplaceAll(config, []byte("/etc/prewarm/id_ed25519"), []byte(key)))
			return hosts.New(hosts.Options{Config: parsed}), err
		},
		"docker": func(raw json.RawMessage) (provider.Provider, error) {
			config, err := docker.ParseConfig(raw)
			if err != nil {
				return nil, err
			}
			config.Host = engine
			return docker.New(t.Context(), docker.Options{Config: config})
		},
	}, database.InTransaction)

	sources := map[string]string{}
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		sources[filepath.Base(file)] = string(b)
	}
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, blocks)
	sources["configuration.md"] = string(blocks[0][1])

	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(source, "kind: docker") {
				engine = dockertest.Start(t).Host
			}
			b := newBench(t)
			b.NewProvider = registry.New
			b.apply(t, "providers: [{name: local, kind: local}, {name: sim, kind: sim}]") // as every server has them
			dbtest.Forge(t, b.Store, "acme", "github", "organization")
			require.NotEmpty(t, b.apply(t, source).Templates)
			if name == "quickstart.yaml" {
				require.EqualValues(t, 3, *b.preset(t, "quickstart", "default").Instances)
			}
			doc, err := templates.Parse(name, source)
			require.NoError(t, err)
			for _, of := range doc.Templates { // what is written of a template reads as the file it came from
				for _, p := range of.Presets {
					if p.Prebuilds != nil && !p.Prebuilds.AllMachines {
						require.Empty(t, b.resized(t, of.Name, p.Name, int(p.Prebuilds.Instances)))
					}
				}
			}
		})
	}
}
