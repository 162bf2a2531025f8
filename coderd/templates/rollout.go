package templates

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
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
		setting{key: "progress_deadline", read: func(n ast.Node) {
			r.ProgressDeadline = d.duration(n, "progress_deadline", maxProgress)
		}})
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

// rolloutState is what a template's row says of its rollouts, for comparison and for the record.
type rolloutState struct {
	MaxSurge         string `json:"max_surge"`
	MaxUnavailable   string `json:"max_unavailable,omitempty"`
	ProgressDeadline string `json:"progress_deadline"`
	CreatesInFlight  string `json:"creates_in_flight,omitempty"`
}

func (t Template) rollout() rolloutState {
	return rolloutState{
		string(t.Rollout.MaxSurge), string(t.Rollout.MaxUnavailable), t.Rollout.ProgressDeadline.String(),
		shownLimit(t.CreatesInFlight),
	}
}

func rolloutOf(row database.Template) rolloutState {
	return rolloutState{
		row.MaxSurge, row.MaxUnavailable, (time.Duration(row.ProgressDeadlineS) * time.Second).String(),
		shownLimit(row.CreatesInFlight),
	}
}

func rolloutFields(old, after rolloutState) []string {
	return fields(
		field{"rollout.max_surge", old.MaxSurge, after.MaxSurge},
		field{"rollout.max_unavailable", old.MaxUnavailable, after.MaxUnavailable},
		field{"rollout.progress_deadline", old.ProgressDeadline, after.ProgressDeadline},
		field{"creates_in_flight", old.CreatesInFlight, after.CreatesInFlight},
	)
}
