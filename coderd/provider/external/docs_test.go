package external_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/external"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
)

// The examples in the documentation are ones that a provider takes, but for the paths in them.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/providers/external.md")
	require.NoError(t, err)
	var configs, specs, agents int
	scripts := map[string]string{}
	for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		raw, err := yaml.YAMLToJSON([]byte(block))
		require.NoError(t, err)
		var file struct {
			Providers []struct {
				Name   string          `json:"name"`
				Kind   string          `json:"kind"`
				Config json.RawMessage `json:"config"`
			} `json:"providers"`
			Templates []struct {
				Provider string          `json:"provider"`
				Agent    json.RawMessage `json:"agent"`
				Spec     json.RawMessage `json:"spec"`
				Presets  []struct {
					Parameters map[string]string `json:"parameters"`
				} `json:"presets"`
			} `json:"templates"`
		}
		require.NoError(t, json.Unmarshal(raw, &file), block)
		for _, p := range file.Providers {
			require.Equal(t, "external", p.Kind)
			config, err := external.ParseConfig(p.Config)
			require.ErrorContains(t, err, "no such file", "all else is right")
			configs++
			scripts[p.Name] = config.InstallScript
		}
		for _, template := range file.Templates {
			for _, preset := range template.Presets {
				s := newSite(t, externaltest.Config{Protocol: "v0.1.0"}) // what the executable of the example speaks
				s.config["install_script"] = scripts[template.Provider]
				p := s.open()
				assert.Empty(t, p.Validate(template.Spec, preset.Parameters))
				if _, hosts := provider.As[provider.AgentHost](p.Offered()); template.Agent != nil {
					assert.True(t, hosts, "the example's provider refuses its agent: %s", p.Spoken().NoAgent)
					agents++
				}
				specs++
			}
		}
	}
	assert.Equal(t, 2, configs)
	assert.Equal(t, 2, specs)
	assert.Equal(t, 1, agents)
}
