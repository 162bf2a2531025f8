package templates_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
)

func TestParseAgent(t *testing.T) {
	t.Parallel()
	doc, err := templates.Parse("f", "templates:\n  - {name: a, provider: p, spec: {}, agent: {on_start: [sh, -c, x], heartbeat_timeout: 90s}}\n"+
		"  - {name: b, provider: p, spec: {}, agent: {}}\n  - {name: c, provider: p, spec: {}}\n")
	require.NoError(t, err)
	require.Equal(t, []string{"sh", "-c", "x"}, doc.Templates[0].Agent.OnStart)
	require.InDelta(t, 90, doc.Templates[0].Agent.HeartbeatTimeout.Seconds(), 0)
	require.InDelta(t, 60, doc.Templates[1].Agent.HeartbeatTimeout.Seconds(), 0)
	require.Nil(t, doc.Templates[2].Agent)

	for agent, want := range map[string]string{
		"{on_start: make}": "on_start must be a list", "{on_start: []}": "on_start must name a program",
		"{runner: []}": "runner must name a program", "{on_claim: ['']}": "on_claim must name a program", "{on_claim: [1]}": "an argument of on_claim must be a text",
		"{onstart: [x]}": `did you mean "on_start"?`, "{heartbeat_timeout: 10ms}": "it must be between 1s and 24h0m0s",
		"true": "agent must be a mapping",
	} {
		_, err := templates.Parse("f", "templates: [{name: a, provider: p, spec: {}, agent: "+agent+"}]")
		require.ErrorContains(t, err, want, agent)
	}
}

// hosting is a provider that runs agents.
type hosting struct{ fake }

func (hosting) HostsAgent() {}

// mute says why it runs no agent.
type mute struct{ fake }

func (mute) Spoken() provider.Protocol { return provider.Protocol{NoAgent: "it says nothing"} }

// An agent is refused at a provider that runs none, and is part of a version: another one makes another version, and the
// same one, however written, does not.
func TestApplyAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(kind string, config json.RawMessage) (provider.Provider, error) {
		switch kind {
		case "hosting":
			return hosting{}, nil
		case "mute":
			return mute{}, nil
		}
		return newProvider(kind, config)
	}
	file := func(kind, agent string) string {
		return "providers: [{name: " + kind + ", kind: " + kind + "}]\ntemplates:\n" +
			"  - {name: t, provider: " + kind + ", spec: {command: [x]}" + agent + "}\n"
	}
	_, err := b.try(file("fake", ", agent: {}"), false)
	require.ErrorContains(t, err, `provider "fake" cannot run an agent in its workspaces`)

	_, err = b.try(file("mute", ", agent: {}"), false)
	require.ErrorContains(t, err, `provider "mute" cannot run an agent in its workspaces: it says nothing; leave agent out`)

	for _, step := range []struct{ agent, fields string }{
		{"", ""},
		{", agent: {}", "[active version: 1 -> 2 agent: false -> true agent.heartbeat_timeout_s: (none) -> 60]"},
		{", agent: {heartbeat_timeout: 60s}", ""},
		{", agent: {on_start: [make, all]}", `[active version: 2 -> 3 agent.on_start: (none) -> ["make","all"]]`},
		{", agent: {heartbeat_timeout: 1m, on_start: ['make', all]}", ""},
		{"", `[active version: 3 -> 1 agent: true -> false agent.heartbeat_timeout_s: 60 -> (none) ` +
			`agent.on_start: ["make","all"] -> (none)]`},
	} {
		var told string
		for _, c := range b.apply(t, file("hosting", step.agent)).Changes {
			if c.Kind == "version" && len(c.Fields) > 0 {
				told = fmt.Sprint(c.Fields)
			}
		}
		require.Equal(t, step.fields, told, step.agent)
	}
}

// What opens workspaces to others is refused until an owner allows it on the provider, and is part of the version. Where it is not
// allowed any more, the file that it is in still applies: it changes nothing.
func TestApplyAgent_opensWorkspaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return hosting{}, nil }
	admin := b
	admin.by.Role = database.RoleTemplateAdmin
	owned := func(allows string) string { return "providers: [{name: p, kind: hosting" + allows + "}]\n" }
	template := func(agent string) string {
		return "templates:\n  - {name: t, provider: p, spec: {command: [x]}, agent: {" + agent + "}}\n"
	}
	const both, all = "enter: [template-admin], public_ports: [8080, 3000]", ", data_plane: {enter: true, public_ports: true}"
	b.apply(t, owned(""))

	before := b.dump(t)
	_, err := admin.try(template(both), false)
	require.ErrorContains(t, err, `f.yaml:2:65: provider "p" does not allow enter: leave it out, or let an owner add data_plane: {enter: true} to the provider`)
	require.ErrorContains(t, err, `provider "p" does not allow public_ports: leave it out, or let an owner add`)
	_, err = admin.try(owned(all)+template(both), false)
	require.ErrorIs(t, err, auth.ErrForbidden, "the owner allows it, and nobody else")
	require.ErrorContains(t, err, "this file would change data_plane.enter, data_plane.public_ports, and only an owner may")
	require.Equal(t, before, b.dump(t))

	require.Equal(t, []string{"data_plane.enter: false -> true", "data_plane.public_ports: false -> true"}, b.apply(t, owned(all)).Changes[0].Fields)
	result, err := admin.try(template(both), false)
	require.NoError(t, err)
	require.Equal(t, "create", result.Changes[0].Action)
	text, err := b.Export(t.Context(), b.by, "t")
	require.NoError(t, err)
	require.Contains(t, text, "enter:\n    - template-admin\n    public_ports:\n    - 3000\n    - 8080\n")
	require.Empty(t, b.apply(t, text).Changes, "what is exported is what is there")

	b.apply(t, owned(""))
	result, err = admin.try(template(both), false)
	require.NoError(t, err)
	require.Empty(t, result.Changes, "the version is there, and opens nothing")
	_, err = admin.try(template("enter: [template-admin]"), false)
	require.ErrorContains(t, err, "does not allow enter")
	_, err = admin.try(template(""), false)
	require.NoError(t, err, "less is always allowed")

	for agent, want := range map[string]string{
		"enter: [owner]": `"owner" cannot be in enter: only template-admin can`, "enter: [template-admin, template-admin]": "twice",
		"public_ports: [0]": "a port", "public_ports: [3000, 3000]": "public_ports has 3000 twice", "public_ports: 3000": "must be a list",
		"public_ports: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]": "at most 20 fit",
		"data_plane: false, enter: [template-admin]":                                                "need the data plane",
	} {
		_, err := b.try(owned(all)+template(agent), false)
		require.ErrorContains(t, err, want, agent)
	}
}
