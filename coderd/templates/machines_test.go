package templates_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
)

// reserving is a provider whose machines exist beforehand.
type reserving struct{ fake }

func (reserving) ListMachines(context.Context) ([]provider.Machine, error) { return nil, nil }

// S5: the limits of who says nothing of them are those of its provider, whatever its kind: whether machines exist beforehand
// may be in its configuration. Who may not change providers can apply a file that leaves them as they are.
func TestDefaultLimits_whereMachinesExist(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(kind string, config json.RawMessage) (provider.Provider, error) {
		if kind == "any" && strings.Contains(string(config), "machines") {
			return reserving{}, nil
		}
		return fake{}, nil
	}
	limits := func() (text string) {
		require.NoError(t, b.Store.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', maximum, chunk, create_every_s, reserves::text)
			FROM providers WHERE name = 'p'`).Scan(&text))
		return text
	}
	const fixed = "providers: [{name: p, kind: any, config: {machines: 3}}]"
	for _, step := range []struct{ file, want string }{
		{"providers: [{name: p, kind: any}]", "0 1000 false"},
		{fixed, "50 20 5 true"},
		{"providers: [{name: p, kind: any, config: {machines: 3}, maximum: 0, chunk: 7, create_every: 1s}]", "0 7 1 true"},
		{"providers: [{name: p, kind: any}]", "0 1000 false"},
		{fixed, "50 20 5 true"},
	} {
		b.apply(t, step.file)
		require.Equal(t, step.want, limits(), step.file)
		require.Empty(t, b.apply(t, step.file).Changes, step.file)
	}
	b.by.Role = database.RoleTemplateAdmin
	b.apply(t, fixed+"\ntemplates: [{name: t, provider: p, spec: {command: [x]}}]")
	_, err := b.try("providers: [{name: p, kind: any, config: {machines: 3}, maximum: 51}]", false)
	require.ErrorContains(t, err, "this file would change maximum")
}

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
