package templates

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// defaultProgressDeadline is far above what a first prebuild takes, retries included.
const defaultProgressDeadline = time.Hour

const (
	defaultSurge = "100%"
	maxProgress  = 7 * 24 * time.Hour
)

// Rollout is how a version of a template replaces another (C7).
type Rollout struct {
	MaxSurge         prebuilds.Share
	MaxUnavailable   prebuilds.Share // empty: none, but one where a maximum leaves no room
	ProgressDeadline time.Duration   // whole seconds
}

func defaultRollout() Rollout {
	return Rollout{MaxSurge: defaultSurge, ProgressDeadline: defaultProgressDeadline}
}

func (d decoder) rollout(n ast.Node) Rollout {
	r := defaultRollout()
	d.object(n, "rollout",
		setting{key: "max_surge", read: func(n ast.Node) { r.MaxSurge = d.share(n, "max_surge") }},
		setting{key: "max_unavailable", read: func(n ast.Node) { r.MaxUnavailable = d.share(n, "max_unavailable") }},
		d.durationInto(&r.ProgressDeadline, "progress_deadline", maxProgress))
	if r.MaxSurge.Zero() && (r.MaxUnavailable == "" || r.MaxUnavailable.Zero()) {
		d.problems.add(position(n), "rollout has max_surge 0 and max_unavailable 0: nothing could ever be replaced; let one "+
			"of them be at least 1")
	}
	return r
}

// share reads a number of prebuilds or per cent of desired.
func (d decoder) share(n ast.Node, what string) prebuilds.Share {
	var text string
	switch n := n.(type) {
	case *ast.IntegerNode:
		text = n.GetToken().Value
	case *ast.StringNode:
		text = n.Value
	default:
		d.problems.add(position(n), `%s must be a number or per cent of desired, such as 2 or "25%%", not %s`, what, describe(n))
		return ""
	}
	share, err := prebuilds.ParseShare(text)
	if err != nil {
		d.problems.add(position(n), "%s is %s: it %s", what, text, err.Error())
	}
	return share
}
