package templates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/templatesdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// fake is a provider that only validates: a spec needs a command, and must not need a GPU that is not asked for.
type fake struct{ provider.Provider }

func (fake) Validate(spec json.RawMessage, parameters map[string]string) []provider.Problem {
	var s struct {
		Command   []string `json:"command"`
		Readiness struct {
			TCP int `json:"tcp"`
		} `json:"readiness"`
	}
	var problems []provider.Problem
	if err := json.Unmarshal(spec, &s); err != nil {
		return []provider.Problem{{Message: err.Error()}}
	}
	if len(s.Command) == 0 {
		problems = append(problems, provider.Problem{Path: "command", Message: "is missing: say what to run"})
	}
	if s.Readiness.TCP < 0 {
		problems = append(problems, provider.Problem{Path: "readiness.tcp", Message: "is not a port"})
	}
	if _, ok := parameters["gpu"]; ok {
		problems = append(problems, provider.Problem{Path: "parameters.gpu", Message: "there are no GPUs"})
	}
	return problems
}

func newProvider(kind string, config json.RawMessage) (provider.Provider, error) {
	if kind != "fake" {
		return nil, xerrors.Errorf("unknown kind %q: it is one of fake", kind)
	}
	if strings.Contains(string(config), "broken") {
		return nil, xerrors.New("no server answers")
	}
	return fake{}, nil
}

// bench is a service on a database of its own.
type bench struct {
	*templates.Service
	by auth.Identity
}

func newBench(t *testing.T) bench {
	t.Helper()
	store := dbtest.Open(t)
	return bench{
		Service: &templates.Service{Store: store, NewProvider: newProvider},
		by: auth.Identity{
			Principal:  auth.Principal{UserID: auth.BuiltinUserID, User: "prewarm"},
			Membership: auth.Membership{OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner},
			Source:     "192.0.2.1",
		},
	}
}

func (b bench) try(source string, dryRun bool) (templates.Result, error) {
	return b.Apply(context.Background(), templates.Request{By: b.by, File: "f.yaml", Source: source, DryRun: dryRun})
}

func (b bench) apply(t *testing.T, source string) templates.Result {
	t.Helper()
	result, err := b.try(source, false)
	require.NoError(t, err)
	return result
}

// dump is everything that configuration is stored in.
func (b bench) dump(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, table := range []string{"providers", "templates", "template_versions", "presets", "audit_log"} {
		var rows string
		require.NoError(t, b.Store.Pool.QueryRow(context.Background(),
			"SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM "+table+" t").Scan(&rows))
		all.WriteString(table + ":\n" + rows + "\n")
	}
	return all.String()
}

func (b bench) preset(t *testing.T, template, preset string) database.Preset {
	t.Helper()
	ref, err := viewsdb.New(b.Store).PresetRef(context.Background(), viewsdb.PresetRefParams{
		OrganizationID: auth.DefaultOrganizationID, Template: template, Preset: preset,
	})
	require.NoError(t, err)
	rows, err := templatesdb.New(b.Store).PresetsOf(context.Background(), ref.TemplateID)
	require.NoError(t, err)
	for _, row := range rows {
		if row.ID == ref.ID {
			return row
		}
	}
	t.Fatalf("no preset %s/%s", template, preset)
	return database.Preset{}
}

// told is changes as a person reads them.
func told(changes []sdk.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s %s\n", c.Action, c.Kind, c.Name)
		for _, f := range c.Fields {
			fmt.Fprintf(&b, "    %s\n", f)
		}
		if c.Effect != "" {
			fmt.Fprintf(&b, "    => %s\n", c.Effect)
		}
	}
	return b.String()
}

const first = `
providers:
  - {name: here, kind: fake}
templates:
  - name: go
    provider: here
    spec: {command: [sleep, "1"]}
    presets:
      - name: small
        prebuilds: {instances: 3}
      - name: big
        parameters: {cpu: 8}
        prebuilds: {instances: 1, ttl: 8h, priority: 2}
`

// TestApplyStory follows one configuration through its life. The golden file is what a person is told at each step.
func TestApplyStory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	var story strings.Builder
	step := func(title, source string) templates.Result {
		t.Helper()
		before := b.dump(t)
		dry, err := b.try(source, true)
		require.NoError(t, err)
		require.Equal(t, before, b.dump(t), "a dry run changes nothing")
		require.Empty(t, dry.Templates)
		result := b.apply(t, source)
		require.Equal(t, dry.Changes, result.Changes, "a dry run tells what happens")
		after := b.dump(t)
		again := b.apply(t, source)
		require.Empty(t, again.Changes)
		require.Empty(t, again.Templates)
		require.Equal(t, after, b.dump(t), "an apply that changes nothing writes nothing")
		story.WriteString("# " + title + "\n" + told(result.Changes) + "\n")
		return result
	}

	require.Len(t, step("the first apply", first).Templates, 1)
	small := b.preset(t, "go", "small")
	require.EqualValues(t, 3, *small.Instances)
	b.prebuilds(t, small, 2)

	require.Len(t, step("fewer instances", strings.Replace(first, "instances: 3", "instances: 2", 1)).Templates, 1)
	require.Equal(t, small.PoolKey, b.preset(t, "go", "small").PoolKey, "the number makes no other pool")

	second := strings.Replace(first, `"1"`, `"2"`, 1)
	step("another version", second)
	require.NotEqual(t, small.PoolKey, b.preset(t, "go", "small").PoolKey)

	step("the first version again", first)
	require.Equal(t, small.PoolKey, b.preset(t, "go", "small").PoolKey, "what is left of it is current again")
	step("spec written in another order and style", strings.Replace(first, `{command: [sleep, "1"]}`,
		"\n      command:\n        - sleep\n        - '1'", 1))

	step("other parameters and settings", strings.NewReplacer("cpu: 8", "cpu: 16", "8h", "4h", "priority: 2", "priority: 0",
		"provider: here\n", "provider: here\n    keep_outdated: true\n    boot_timeout: 5m\n    description: Go 1.26\n",
		"kind: fake", "kind: fake, maximum: 9, config: {zone: b}").Replace(first))

	id, err := b.Deprecate(ctx, b.by, "go")
	require.NoError(t, err)
	require.NotEqual(t, uuid.Nil, id)
	id, err = b.Deprecate(ctx, b.by, "go")
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, id, "it is deprecated already")
	step("a deprecated template, without one of its presets", strings.Replace(second, "      - name: small\n"+
		"        prebuilds: {instances: 3}\n", "", 1))
	_, err = b.Undeprecate(ctx, b.by, "go")
	require.NoError(t, err)

	old := b.preset(t, "go", "big")
	_, err = b.Delete(ctx, b.by, "go")
	require.NoError(t, err)
	_, err = b.Delete(ctx, b.by, "go")
	require.ErrorIs(t, err, auth.ErrNotFound)
	step("a template that was deleted", first)
	require.NotEqual(t, old.TemplateID, b.preset(t, "go", "big").TemplateID, "it is a new one")

	step("a file that does not mention the template", "providers: [{name: other, kind: fake}]")
	golden(t, "story.golden", story.String())
}

// prebuilds puts ready prebuilds of a preset into the database.
func (b bench) prebuilds(t *testing.T, p database.Preset, n int) {
	t.Helper()
	for range n {
		id := uuid.New()
		_, err := b.Store.Pool.Exec(context.Background(), `
			INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key,
			  provider, parameters, state, owner_id, created_at, state_at, ready_at)
			SELECT $1, $2, p.organization_id, p.template_id, t.active_version_id, p.id, p.pool_key, t.provider, '{}', 'ready',
			  $3, now(), now(), now()
			FROM presets p JOIN templates t ON t.id = p.template_id WHERE p.id = $4`,
			id, "prebuild-"+id.String(), auth.BuiltinUserID, p.ID)
		require.NoError(t, err)
	}
}

// TestApplyRecords: each change is one entry of the audit log, with who, from where, before and after.
func TestApplyRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	changes := b.apply(t, first).Changes
	changes = append(changes, b.apply(t, strings.NewReplacer("instances: 3", "instances: 4", `"1"`, `"2"`,
		"      - name: big\n        parameters: {cpu: 8}\n        prebuilds: {instances: 1, ttl: 8h, priority: 2}\n", "",
	).Replace(first)).Changes...)
	_, err := b.Deprecate(ctx, b.by, "go")
	require.NoError(t, err)
	_, err = b.Delete(ctx, b.by, "go")
	require.NoError(t, err)

	entries, err := viewsdb.New(b.Store).AuditLog(ctx, viewsdb.AuditLogParams{
		OrganizationID: auth.DefaultOrganizationID, MaxEntries: 100,
	})
	require.NoError(t, err)
	var got, want []string
	for i := range entries { // newest first
		e := entries[len(entries)-1-i]
		got = append(got, e.Action+" "+e.TargetName)
		require.Equal(t, "192.0.2.1", e.Source)
		require.Equal(t, "prewarm", e.Actor)
		if strings.HasSuffix(e.Action, ".create") && e.TargetName != "go@2" {
			require.Empty(t, string(e.Before), e.Action)
		} else {
			require.NotEmpty(t, string(e.Before), e.Action)
		}
		if e.Action == "preset.update" {
			require.JSONEq(t, `{"parameters":{},"instances":3,"priority":0}`, string(e.Before))
			require.JSONEq(t, `{"parameters":{},"instances":4,"priority":0}`, string(e.After))
		}
	}
	for _, c := range changes {
		want = append(want, c.Kind+"."+c.Action+" "+c.Name)
	}
	require.Equal(t, append(want, "template.deprecate go", "template.delete go"), got)
}

// TestApplyRefusals: what needs the world to be seen wrong, all at once, with its place, and nothing changed.
func TestApplyRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t, first)
	before := b.dump(t)
	for name, test := range map[string]struct{ source, want string }{
		"unknown provider": {`
templates:
  - {name: a, provider: hree, spec: {command: [x]}}
  - {name: b, provider: elsewhere, spec: {command: [x]}}
`, `f.yaml:3:25: unknown provider "hree" (did you mean "here"?): there is only here; declare others under providers
f.yaml:4:25: unknown provider "elsewhere": there is only here; declare others under providers`},
		"unknown kind": {`
providers: [{name: p, kind: lokal}]
templates: [{name: a, provider: p, spec: {command: [x]}}]
`, `f.yaml:2:29: provider "p": unknown kind "lokal": it is one of fake`},
		"provider that does not work": {`
providers:
  - name: p
    kind: fake
    config:
      address: broken
`, `f.yaml:6:7: provider "p": no server answers`},
		"kind of a provider changed": {`
providers: [{name: here, kind: sim}]
`, `f.yaml:2:32: provider "here" is of kind fake: its workspaces could not be deleted by another kind; give the new provider another name`},
		"spec refused, beside other problems": {`
templates:
  - name: a
    provider: here
    spec:
      readiness:
        tcp: -1
    presets:
      - name: p
        parameters:
          gpu: 1
        prebuilds: {instances: -1}
`, `f.yaml:6:7: spec.command: is missing: say what to run
f.yaml:7:9: spec.readiness.tcp: is not a port
f.yaml:11:11: parameters.gpu: there are no GPUs
f.yaml:12:32: instances is -1: it must be between 0 and 10000`},
		"half right": {strings.Replace(first, "instances: 3", "instances: 7", 1) + `
  - name: wrong
    provider: nowhere
    spec: {}
`, `f.yaml:16:15: unknown provider "nowhere": there is only here; declare others under providers`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dryRun := range []bool{false, true} {
				_, err := b.try(test.source, dryRun)
				var problems *templates.Problems
				require.ErrorAs(t, err, &problems)
				require.Equal(t, test.want, problems.Error())
				require.Equal(t, before, b.dump(t))
			}
		})
	}
}

func TestPoolKey(t *testing.T) {
	t.Parallel()
	base := templates.PoolKeyOf{
		Organization: uuid.MustParse("00000000-0000-4000-8000-000000000001"),
		Template:     uuid.MustParse("00000000-0000-4000-8000-000000000002"),
		Version:      "abc", Preset: "p", Parameters: map[string]string{"a": "1", "b": "2"}, Generation: 1,
	}
	key := func(change func(*templates.PoolKeyOf)) uuid.UUID {
		of := base
		change(&of)
		k, err := templates.PoolKey(of)
		require.NoError(t, err)
		return k
	}
	same := key(func(*templates.PoolKeyOf) {})
	require.Equal(t, "9fc2d49a", same.String()[:8], "stored keys must go on to match: a change here replaces every prebuild")
	seen := map[uuid.UUID]string{same: "unchanged"}
	for name, change := range map[string]func(*templates.PoolKeyOf){
		"organization": func(of *templates.PoolKeyOf) { of.Organization = uuid.Max },
		"template":     func(of *templates.PoolKeyOf) { of.Template = uuid.Max },
		"version":      func(of *templates.PoolKeyOf) { of.Version = "abd" },
		"preset":       func(of *templates.PoolKeyOf) { of.Preset = "q" },
		"parameters":   func(of *templates.PoolKeyOf) { of.Parameters = map[string]string{"a": "12", "b": ""} },
		"no parameter": func(of *templates.PoolKeyOf) { of.Parameters = nil },
		"generation":   func(of *templates.PoolKeyOf) { of.Generation = 2 },
	} {
		k := key(change)
		require.Empty(t, seen[k], "%s makes another pool", name)
		seen[k] = name
	}
}

// Providers are the owner's: what they say is what workspaces reach, and what the server runs. Whoever else applies a file
// may have in it what is there already, and nothing of another is tried out.
func TestApply_providersAreTheOwners(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const mine = "providers: [{name: own, kind: fake, maximum: 3, config: {root: /srv}}]\n"
	const template = "templates: [{name: go, provider: own, spec: {command: [go]}}]\n"
	admin := b
	admin.by.Role = database.RoleTemplateAdmin
	made := 0
	admin.Service = &templates.Service{Store: b.Store, NewProvider: func(kind string, config json.RawMessage) (provider.Provider, error) {
		made++
		return newProvider(kind, config)
	}}
	refused := func(source, what string) {
		t.Helper()
		before := b.dump(t)
		for _, dryRun := range []bool{true, false} {
			_, err := admin.try(source, dryRun)
			require.ErrorIs(t, err, auth.ErrForbidden)
			require.ErrorContains(t, err, what)
			require.ErrorContains(t, err, "only an owner may")
		}
		require.Zero(t, made, "nothing of it was tried")
		require.Equal(t, before, b.dump(t))
	}
	refused(mine, "apply provider own: there is no such provider yet")
	b.apply(t, mine)
	refused(strings.Replace(mine, "/srv", "/", 1)+template, "this file would change config.root, and only")
	refused(strings.Replace(mine, "maximum: 3", "maximum: 4", 1), "this file would change maximum, and only")
	refused(strings.Replace(mine, "kind: fake", "kind: other", 1), "its kind or its config")
	refused("providers: [{name: second, kind: fake}]", "second")

	result, err := admin.try(mine+template, false)
	require.NoError(t, err, "the same provider, and a template of it")
	require.Len(t, result.Templates, 1)

	// Whoever was allowed by what they saw may not write what is so no longer: the row is asked for again under its lock.
	racing := admin
	racing.Service = &templates.Service{Store: b.Store, NewProvider: func(kind string, config json.RawMessage) (provider.Provider, error) {
		b.apply(t, strings.Replace(mine, "/srv", "/other", 1))
		return newProvider(kind, config)
	}}
	_, err = racing.try(mine, false)
	require.ErrorIs(t, err, auth.ErrForbidden)
	require.Contains(t, b.dump(t), "/other")
}
