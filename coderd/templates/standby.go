package templates

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Standby is the tier of prebuilds that are built and stopped (C17).
type Standby struct {
	Running prebuilds.Share // of desired that are kept running; empty: all, there is no tier

	at Pos
}

// standby reads `{running: 3}`, or one of the words `stopped` (none runs) and `running` (all do).
func (d decoder) standby(n ast.Node) Standby {
	s := Standby{at: position(n)}
	switch v := n.(type) {
	case *ast.StringNode:
		switch v.Value {
		case "stopped":
			s.Running = "0"
		case "running":
		default:
			d.problems.add(s.at, `standby is %s: it must be stopped, running, or a mapping such as {running: 3}`, quote(v.Value))
		}
	case ast.MapNode:
		d.object(n, "standby", setting{key: "running", required: true, read: func(n ast.Node) {
			s.Running = d.share(n, "running")
		}})
	default:
		d.problems.add(s.at, "standby must be stopped, running, or a mapping such as {running: 3}, not %s", describe(n))
	}
	return s
}

// running is the setting in a state: the share of desired that are kept running; nil is all.
type running string

// String is the setting for a reader.
func (r *running) String() string {
	if r == nil {
		return "all running"
	}
	return string(*r) + " running"
}

func (r *running) inFile() any { return object{"running": *r} }

// standbyRunning is what the row has of it; nil where there is no tier.
func (p Preset) standbyRunning() *string {
	if p.Prebuilds == nil || p.Prebuilds.Standby.Running == "" {
		return nil
	}
	running := string(p.Prebuilds.Standby.Running)
	return &running
}
