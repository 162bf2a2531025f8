package templates_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// exported checks that the exported file changes nothing, and that another export of it is the same text.
func (b bench) exported(t require.TestingT, template string) string {
	file, err := b.Export(context.Background(), b.by, template)
	require.NoError(t, err)
	for _, dry := range []bool{true, false} {
		result, err := b.try(file, dry)
		require.NoError(t, err, file)
		require.Empty(t, result.Changes, file)
	}
	again, err := b.Export(context.Background(), b.by, template)
	require.NoError(t, err)
	require.Equal(t, file, again)
	return file
}

// An exported file says all that there is of a template, and leaves out what is at its default; applied it changes nothing, and
// in an installation that has no such template, it makes the same one.
func TestExport(t *testing.T) {
	t.Parallel()
	const more = `
  - name: runners
    provider: here
    boot_timeout: 90s
    agent: {on_start: [sh, -c, "first\nsecond: 'line' # no comment\n"], runner: [./run.sh]}
    spec: {command: [x], environment: {TOKEN_FILE: /run/secrets/token, "yes": "no", "08": "1e3", ASKS: "? x", MARK: "?"}}
    presets:
      - name: linux
        prebuilds: {instances: 2, autosize: {mode: forecast, max: 4}}
        runner: {forge: acme, labels: [self-hosted, linux], group: large, maximum: 9}
  - name: machines
    provider: here
    spec: {command: [x]}
    presets: [{name: default, prebuilds: {instances: all, ttl: 90m, standby: stopped}}]
  - {name: bare, provider: here, spec: {command: [x]}}
`
	install := func() bench {
		b := newBench(t)
		b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return everythingCapable{}, nil }
		b.apply(t, "providers: [{name: here, kind: fake}]")
		dbtest.Forge(t, b.Store, "acme", "github", "organization")
		return b
	}
	b := install()
	b.apply(t, everything+more)
	all := ""
	for _, name := range []string{"full", "runners", "machines", "bare"} {
		file := b.exported(t, name)
		other := install()
		other.apply(t, file)
		require.Equal(t, file, other.exported(t, name))
		all += file
	}
	golden(t, "exported.yaml", all)

	_, err := b.Export(context.Background(), b.by, "ful")
	var refusal *auth.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Contains(t, err.Error(), `did you mean "full"?`)
}

// The same of whatever files there may be.
func TestExport_always(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rapid.Check(t, func(rt *rapid.T) {
		source := document(rt)
		_, err := b.try(source, false)
		require.NoError(rt, err)
		for _, name := range []string{"a", "b", "c"} {
			if strings.Contains(source, "name: "+name+"\n") {
				b.exported(rt, name)
			}
		}
	})
}

// everythingCapable is a provider of machines that can do all that a template may ask for.
type everythingCapable struct {
	capable
	provider.Reserver
}
