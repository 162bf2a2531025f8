package templates_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
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
