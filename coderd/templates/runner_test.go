package templates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func runnerFile(runner string) string {
	if runner != "" {
		runner = ", runner: " + runner
	}
	return fmt.Sprintf(`
providers: [{name: here, kind: fake}]
templates: [{name: a, provider: here, agent: {}, spec: {command: [x]},
  presets: [{name: p, prebuilds: {instances: 2}%s}]}]
`, runner)
}

// TestRunners_apply: what a file says of runners is stored, shown when it changes and no change when it is said again; what
// they are to their forge makes other prebuilds, and the rest does not.
func TestRunners_apply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return hosting{}, nil }
	acme := dbtest.Forge(t, b.Store, "acme", "github", "organization")
	other := dbtest.Forge(t, b.Store, "other", "github", "organization")
	b.apply(t, runnerFile(""))
	plain := b.preset(t, "a", "p")
	require.False(t, plain.ForgeEntityID.Valid)
	_, err := b.Store.Pool.Exec(t.Context(), `INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at)
		VALUES (gen_random_uuid(), $1, $2, $3, 'prefer', 'waiting', now(), now() + interval '1 hour')`,
		b.by.OrganizationID, plain.ID, b.by.UserID)
	require.NoError(t, err)

	const full = `{forge: acme, labels: [X64, linux, Linux], group: large, maximum: 5}`
	changes := b.apply(t, runnerFile(full)).Changes
	require.Contains(t, told(changes), "runner.forge: (none) -> acme")
	require.Contains(t, told(changes), "runner.labels: (none) -> linux, x64")
	require.Contains(t, told(changes), "runner.maximum: no limit -> 5")
	row := b.preset(t, "a", "p")
	require.Equal(t, acme, row.ForgeEntityID.UUID)
	require.Equal(t, []string{"linux", "x64"}, row.RunnerLabels)
	require.Equal(t, "large", row.RunnerGroup)
	require.EqualValues(t, 5, *row.RunnerMaximum)
	require.EqualValues(t, 600, row.RunnerRegistrationTimeoutS, "A3: 10 min")
	require.NotEqual(t, plain.PoolKey, row.PoolKey)
	var missed string
	require.NoError(t, b.Store.Pool.QueryRow(t.Context(), "SELECT state || ': ' || reason FROM claims").Scan(&missed))
	require.Equal(t, "missed: the preset became one of runners, which jobs claim", missed)

	require.Empty(t, b.apply(t, runnerFile(full)).Changes)
	require.Empty(t, b.apply(t, runnerFile(`{forge: acme, labels: [x64, LINUX], group: large, maximum: 5}`)).Changes)
	require.Empty(t, b.resized(t, "a", "p", 2), "written as a file it is the same")
	b.resized(t, "a", "p", 3)

	keys := map[uuid.UUID]string{plain.PoolKey: "none", row.PoolKey: "full"}
	for _, tc := range []struct{ runner, want string }{
		{`{forge: acme, labels: [x64, linux], group: large, maximum: 6}`, "full"},
		{`{forge: acme, labels: [x64, linux], maximum: 6}`, ""},
		{`{forge: acme, labels: [x64], group: large}`, ""},
		{`{forge: other, labels: [x64, linux], group: large}`, ""},
		{"", "none"},
		{`{forge: acme, labels: [x64, linux], group: large, registration_timeout: 25m}`, "full"},
		{full, "full"},
	} {
		require.NotEmpty(t, b.apply(t, runnerFile(tc.runner)).Changes)
		key := b.preset(t, "a", "p").PoolKey
		require.Equal(t, tc.want, keys[key], tc.runner)
		if tc.want == "" {
			keys[key] = tc.runner
		}
	}

	// A rollback and an invalidation keep it part of the key.
	_, err = b.Invalidate(t.Context(), b.by, "a", "p", "test")
	require.NoError(t, err)
	again := b.preset(t, "a", "p")
	want, err := templates.PoolKey(templates.PoolKeyOf{
		Organization: again.OrganizationID, Template: again.TemplateID, Version: activeHash(t, b), Preset: "p", Generation: 2,
		Runner: &templates.RunnerOf{Entity: acme, Labels: []string{"linux", "x64"}, Group: "large"},
	})
	require.NoError(t, err)
	require.Equal(t, want, again.PoolKey)

	// Another entity of the same name is another forge.
	_, err = b.Store.Pool.Exec(t.Context(), "UPDATE forge_entities SET deleted_at = now() WHERE id = $1", acme)
	require.NoError(t, err)
	_, err = b.Store.Pool.Exec(t.Context(), "UPDATE forge_entities SET name = 'acme' WHERE id = $1", other)
	require.NoError(t, err)
	require.Contains(t, told(b.apply(t, runnerFile(full)).Changes), "runner.forge: acme (deleted) -> acme")
	require.Equal(t, other, b.preset(t, "a", "p").ForgeEntityID.UUID)
}

func activeHash(t *testing.T, b bench) (hash string) {
	t.Helper()
	require.NoError(t, b.Store.Pool.QueryRow(context.Background(), `SELECT v.hash FROM template_versions v
		JOIN templates t ON t.active_version_id = v.id WHERE t.name = 'a'`).Scan(&hash))
	return hash
}

// TestRunners_refusedByWhatThereIs: a forge that is not there, and groups where there are none.
func TestRunners_refusedByWhatThereIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return hosting{}, nil }
	dbtest.Forge(t, b.Store, "acme", "github", "organization")
	dbtest.Forge(t, b.Store, "tea", "gitea", "organization")
	dbtest.Forge(t, b.Store, "tool", "github", "repository")
	_, err := b.Store.Pool.Exec(t.Context(), "UPDATE forge_entities SET deleted_at = now() WHERE id = $1",
		dbtest.Forge(t, b.Store, "gone", "github", "organization"))
	require.NoError(t, err)
	for runner, says := range map[string]string{
		`{forge: acne, labels: [linux]}`:                            `f.yaml:4:66: unknown forge "acne" (did you mean "acme"?): there are acme, tea, tool`,
		`{forge: gone, labels: [linux]}`:                            `unknown forge "gone"`,
		`{forge: tea, labels: [linux], group: x}`:                   `forge "tea" is a Gitea, which has no groups of runners`,
		`{forge: tool, labels: [linux], group: big}`:                `forge "tool" is a repository, which has no groups of runners`,
		`{forge: acme, labels: [` + strings.Repeat("a", 257) + `]}`: `label has 257 characters: at most 256 are possible`,
		`{forge: acme, labels: [` + many(101) + `]}`:                `labels has 101 entries: at most 100 are possible`,
	} {
		_, err := b.try(runnerFile(runner), false)
		var problems *templates.Problems
		require.ErrorAs(t, err, &problems)
		require.Contains(t, err.Error(), says)
		require.Len(t, problems.List, 1)
	}
	b.apply(t, runnerFile(`{forge: tea, labels: [`+many(100)+`]}`))
}

func many(n int) string {
	var labels []string
	for i := range n {
		labels = append(labels, fmt.Sprintf("l%d", i))
	}
	slices.Reverse(labels)
	return strings.Join(labels, ", ")
}

// TestRunners_registrationTimeout: A3: a preset says how long its runners may take to register; another time builds nothing anew.
func TestRunners_registrationTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return hosting{}, nil }
	dbtest.Forge(t, b.Store, "acme", "github", "organization")
	b.apply(t, runnerFile(`{forge: acme, labels: [linux]}`))
	changes := b.apply(t, runnerFile(`{forge: acme, labels: [linux], registration_timeout: 90s}`)).Changes
	require.Contains(t, told(changes), "runner.registration_timeout: 10m0s -> 1m30s")
	require.EqualValues(t, 90, b.preset(t, "a", "p").RunnerRegistrationTimeoutS)
	require.Empty(t, b.resized(t, "a", "p", 2), "written as a file it is the same")
	_, err := templates.Parse("f.yaml", runnerFile(`{forge: acme, labels: [linux], registration_timeout: 25h}`))
	require.ErrorContains(t, err, "registration_timeout is 25h: it must be between 1s and 24h0m0s")
}

// installing is a provider that installs runners by itself.
type installing struct{ hosting }

func (installing) TakesRunners() {}

// TestRunners_withoutAgent: a runner needs an agent, unless its provider installs it.
func TestRunners_withoutAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dbtest.Forge(t, b.Store, "acme", "github", "organization")
	file := strings.Replace(runnerFile(`{forge: acme, labels: [linux]}`), "agent: {}, ", "", 1)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return hosting{}, nil }
	_, err := b.try(file, false)
	require.ErrorContains(t, err, `preset "p" has a runner, but the template has no agent, from which a runner gets its`)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return installing{}, nil }
	b.apply(t, file)
}
