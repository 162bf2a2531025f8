package templates_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/templates"
)

// `instances: all` leaves nothing for autosize to choose, and is no other word.
func TestAllMachines_parse(t *testing.T) {
	t.Parallel()
	for source, says := range map[string]string{
		"{instances: all}":   "",
		"{instances: every}": "instances must be a whole number, not",
		"{instances: all, autosize: {mode: apply, min: 1, max: 3}}": "instances is all: that leaves nothing for autosize to choose",
	} {
		doc, err := templates.Parse("f.yaml", "templates: [{name: t, provider: p, spec: {}, presets: [{name: d, prebuilds: "+
			source+"}]}]")
		if says != "" {
			require.ErrorContains(t, err, says, source)
			continue
		}
		require.NoError(t, err)
		require.True(t, doc.Templates[0].Presets[0].Prebuilds.AllMachines)
	}
}
