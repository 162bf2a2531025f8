package templates

import (
	"github.com/goccy/go-yaml/ast"
)

// keepFailures reads what is kept of prebuilds that fail; with nothing under its key, the defaults.
func (d decoder) keepFailures(n ast.Node) KeepFailures {
	k := KeepFailures{Maximum: defaultKept, TTL: defaultKeptTTL}
	if _, nothing := n.(*ast.NullNode); nothing {
		return k
	}
	d.object(n, "keep_failures",
		setting{key: "maximum", read: func(n ast.Node) {
			k.Maximum = d.integer(n, "maximum of keep_failures", 0, maxKept, "; 0 is to keep none")
		}},
		setting{key: "ttl", read: func(n ast.Node) { k.TTL = d.duration(n, "ttl of keep_failures", maxKeptTTL) }})
	return k
}

// reuse reads the two settings that belong together, in whichever order they come.
func (d decoder) reuse(t *Template) []setting {
	return []setting{
		{key: "reuse", read: func(n ast.Node) {
			t.Reuse.On, t.reuseAt = d.boolean(n, "reuse"), position(n)
			if t.Reuse.On && t.Reuse.MaxUses == 0 {
				t.Reuse.MaxUses = defaultUses
			}
		}},
		{key: "max_uses", read: func(n ast.Node) {
			t.Reuse.MaxUses = d.integer(n, "max_uses", 2, maxUses, ": leave reuse out for workspaces that serve one claim")
			t.maxUsesAt = position(n)
		}},
	}
}

// checkReuse notes uses without reuse.
func (d decoder) checkReuse(t *Template) {
	if !t.Reuse.On {
		if t.maxUsesAt != (Pos{}) {
			d.problems.add(t.maxUsesAt, "max_uses is for workspaces that are used again: add %q", "reuse: true")
		}
		t.Reuse.MaxUses = 1
	}
}
