package templates

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
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
		setting{key: "data_plane", read: func(n ast.Node) { a.NoDataPlane = !d.boolean(n, "data_plane") }},
		setting{key: "enter", read: func(n ast.Node) { a.Enter, a.enterAt = d.enter(n), position(n) }},
		setting{key: "public_ports", read: func(n ast.Node) { a.PublicPorts, a.publicPortsAt = d.publicPorts(n), position(n) }})
	if at := a.opensAt(); a.NoDataPlane && at != (Pos{}) {
		d.problems.add(at, "enter and public_ports need the data plane, which data_plane: false turns off: leave one of them out")
	}
	return a
}

// mostPublicPorts of a template: whoever claims is shown all of them.
const mostPublicPorts = 20

// opensAt is where an agent opens workspaces to others; nowhere if it does not.
func (a *Agent) opensAt() Pos {
	switch {
	case len(a.Enter) > 0:
		return a.enterAt
	case len(a.PublicPorts) > 0:
		return a.publicPortsAt
	}
	return Pos{}
}

// enter reads the roles that may enter claimed workspaces of others: that is one so far.
func (d decoder) enter(n ast.Node) (roles []string) {
	d.list(n, "enter", func(n ast.Node) {
		role := d.text(n, "a role of enter")
		switch {
		case role != string(database.RoleTemplateAdmin):
			d.problems.add(position(n), "%s cannot be in enter: only template-admin can", quote(role))
		case slices.Contains(roles, role):
			d.problems.add(position(n), "enter has %s twice", quote(role))
		default:
			roles = append(roles, role)
		}
	})
	return roles
}

func (d decoder) publicPorts(n ast.Node) (ports []int32) {
	d.list(n, "public_ports", func(n ast.Node) {
		port := d.integer(n, "a port", 1, math.MaxUint16, "")
		if slices.Contains(ports, port) {
			d.problems.add(position(n), "public_ports has %d twice", port)
		}
		ports = append(ports, port)
	})
	if len(ports) > mostPublicPorts {
		d.problems.add(position(n), "public_ports has %d ports: at most %d fit", len(ports), mostPublicPorts)
	}
	slices.Sort(ports)
	return ports
}

// notAllowed is a problem where an agent opens its workspaces to others, which only an owner allows on their provider.
func notAllowed(doc *Document, t Template, allows Allowed) error {
	problems := &Problems{File: doc.File}
	refuse := func(at Pos, setting string) {
		problems.add(at, "provider %q does not allow %s: leave it out, or let an owner add data_plane: {%s: true} to the provider",
			t.Provider, setting, setting)
	}
	if len(t.Agent.Enter) > 0 && !allows.Enter {
		refuse(t.Agent.enterAt, "enter")
	}
	if len(t.Agent.PublicPorts) > 0 && !allows.PublicPorts {
		refuse(t.Agent.publicPortsAt, "public_ports")
	}
	return problems.err()
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
	Enter             []string `json:"enter,omitempty" file:"enter"`
	PublicPorts       []int32  `json:"public_ports,omitempty" file:"public_ports"`
}

// encodeAgent is nil for none, and canonical.
func encodeAgent(a *Agent) (json.RawMessage, error) {
	if a == nil {
		return nil, nil
	}
	state := agentState{
		OnStart: a.OnStart, OnClaim: a.OnClaim, Runner: a.Runner, HeartbeatTimeoutS: int64(a.HeartbeatTimeout / time.Second),
		Enter: a.Enter, PublicPorts: a.PublicPorts,
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
