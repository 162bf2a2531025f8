package templates

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"golang.org/x/xerrors"
)

// agent reads the agent of a template; with nothing under its key it is one without scripts.
func (d decoder) agent(n ast.Node) *Agent {
	a := &Agent{HeartbeatTimeout: defaultHeartbeat}
	if _, nothing := n.(*ast.NullNode); nothing {
		return a
	}
	d.object(n, "agent",
		setting{key: "on_start", read: func(n ast.Node) { a.OnStart = d.command(n, "on_start") }},
		setting{key: "runner", read: func(n ast.Node) { a.Runner = d.command(n, "runner") }},
		setting{key: "on_claim", read: func(n ast.Node) { a.OnClaim = d.command(n, "on_claim") }},
		d.durationInto(&a.HeartbeatTimeout, "heartbeat_timeout", maxHeartbeat),
		setting{key: "data_plane", read: func(n ast.Node) { a.NoDataPlane = !d.boolean(n, "data_plane") }})
	return a
}

// command reads a program and its arguments.
func (d decoder) command(n ast.Node, what string) []string {
	before := len(d.problems.List)
	var words []string
	d.list(n, what, func(n ast.Node) { words = append(words, d.text(n, "an argument of "+what)) })
	if len(d.problems.List) == before && (len(words) == 0 || strings.TrimSpace(words[0]) == "") {
		d.problems.add(position(n), "%s must name a program and its arguments, such as [sh, -c, make]", what)
	}
	return words
}

// agentState is an agent as a version stores it. The agent itself reads the same from its metadata.
type agentState struct {
	OnStart           []string `json:"on_start,omitempty" file:"on_start"`
	OnClaim           []string `json:"on_claim,omitempty" file:"on_claim"`
	Runner            []string `json:"runner,omitempty" file:"runner"`
	HeartbeatTimeoutS int64    `json:"heartbeat_timeout_s"`
	DataPlane         *bool    `json:"data_plane,omitempty"` // nil where it is on: versions of before stay what they are
}

// encodeAgent is nil for none, and canonical.
func encodeAgent(a *Agent) (json.RawMessage, error) {
	if a == nil {
		return nil, nil
	}
	state := agentState{
		OnStart: a.OnStart, OnClaim: a.OnClaim, Runner: a.Runner, HeartbeatTimeoutS: int64(a.HeartbeatTimeout / time.Second),
	}
	if a.NoDataPlane {
		state.DataPlane = new(bool)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, xerrors.Errorf("encode agent: %w", err)
	}
	return canonical(raw)
}
