package templates_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// TestExamples applies every example, and those in the documentation, with the real providers.
func TestExamples(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	registry := provider.NewRegistry(map[string]provider.Factory{
		"local": func(json.RawMessage) (provider.Provider, error) {
			return local.New(local.Options{Root: filepath.Join(root, "local"), Clock: quartz.NewReal(), Logger: slog.Make()})
		},
		"sim": func(config json.RawMessage) (provider.Provider, error) {
			opts, err := sim.Config(config)
			if err != nil {
				return nil, err
			}
			return sim.New(opts)
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
			b := newBench(t)
			b.NewProvider = registry.New
			b.apply(t, "providers: [{name: local, kind: local}, {name: sim, kind: sim}]") // as every server has them
			require.NotEmpty(t, b.apply(t, source).Templates)
			if name == "quickstart.yaml" {
				require.EqualValues(t, 3, *b.preset(t, "quickstart", "default").Instances)
			}
		})
	}
}
