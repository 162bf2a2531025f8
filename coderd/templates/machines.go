package templates

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// all is the value of instances that takes in every machine of a provider whose machines exist beforehand (S4).
const all = "all"

func isAll(n ast.Node) bool {
	text, ok := n.(*ast.StringNode)
	return ok && text.Value == all
}

// machines notes presets that are to take in all machines of a provider that has none of its own.
func (c *checker) machines(t Template, p provider.Provider) {
	if _, ok := provider.As[provider.Reserver](p); ok {
		return
	}
	for _, preset := range t.Presets {
		if preset.Prebuilds != nil && preset.Prebuilds.AllMachines {
			c.problems.add(preset.Prebuilds.instancesAt, "instances is all, but provider %q makes what it is asked for and has no "+
				"machines of its own: give a number", t.Provider)
		}
	}
}
