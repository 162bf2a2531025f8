package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// config is a configuration that changes, and the YAML that says so.
type config struct {
	root      string // of the simulated clouds, shared by all replicas
	faulty    string // how the cloud treats its callers, as YAML
	maximum   int    // of provider capped; 0: none
	templates []*templateConfig
}

type templateConfig struct {
	name, provider string
	version        int // which of a few specs: an old version may come back
	calm           bool
	deprecated     bool
	presets        []*presetConfig
}

type presetConfig struct {
	name      string
	instances int
	ttl       string
	gone      bool
}

func newConfig(root string, maximum int) *config {
	return &config{
		root: root, maximum: maximum, faulty: `fail: 0.03, lie: 0.01, error_status: 0.01`,
		templates: []*templateConfig{
			{name: "go", provider: "cloud", version: 1, presets: []*presetConfig{{name: "small", instances: 5}, {name: "large", instances: 2}}},
			{name: "node", provider: "cloud", version: 1, presets: []*presetConfig{{name: "small", instances: 3, ttl: "2s"}}},
			{name: "rust", provider: "capped", version: 1, presets: []*presetConfig{{name: "small", instances: 4}, {name: "large", instances: 3}}},
		},
	}
}

// document is all of it.
func (c *config) document() string {
	var b strings.Builder
	fmt.Fprintf(&b, "providers:\n")
	for _, p := range []struct {
		name    string
		maximum int
	}{{"cloud", 0}, {"capped", c.maximum}} {
		fmt.Fprintf(&b, "  - {name: %s, kind: sim, maximum: %d, config: {root: %q, %s}}\n",
			p.name, p.maximum, filepath.Join(c.root, p.name), c.faulty)
	}
	b.WriteString("templates:\n")
	for _, t := range c.templates {
		b.WriteString(t.document())
	}
	return b.String()
}

// document of a template; another version is another spec, by nanoseconds of latency.
func (t *templateConfig) document() string {
	var b strings.Builder
	spec := fmt.Sprintf(`create_latency: 1ms-%dns, ready_latency: 1ms-30ms`, 20_000_000+t.version)
	if t.calm {
		spec = `create_latency: 1ms-5ms, ready_latency: 1ms, fail: 0, lie: 0, error_status: 0`
	}
	fmt.Fprintf(&b, "  - name: %s\n    provider: %s\n    spec: {%s}\n    presets:\n", t.name, t.provider, spec)
	for _, p := range t.presets {
		if p.gone {
			continue
		}
		ttl := ""
		if p.ttl != "" {
			ttl = ", ttl: " + p.ttl
		}
		fmt.Fprintf(&b, "      - {name: %s, prebuilds: {instances: %d%s}}\n", p.name, p.instances, ttl)
	}
	return b.String()
}

// pick chooses a preset; it may be one that is not there just now.
func (c *config) pick(dice *rand.Rand) (template, preset string) {
	t := c.templates[dice.IntN(len(c.templates))]
	return t.name, t.presets[dice.IntN(len(t.presets))].name
}

// mutate changes one template and returns it as a document of its own.
func (c *config) mutate(dice *rand.Rand) string {
	t := c.templates[dice.IntN(len(c.templates))]
	p := t.presets[dice.IntN(len(t.presets))]
	switch dice.IntN(5) {
	case 0, 1:
		t.version = 1 + dice.IntN(4)
	case 2, 3:
		p.instances = dice.IntN(9)
	default:
		if len(t.presets) > 1 { // the first stays
			last := t.presets[len(t.presets)-1]
			last.gone = !last.gone
		}
	}
	return "templates:\n" + t.document()
}

// toggle deprecates a template, or brings it back.
func (c *config) toggle(dice *rand.Rand) (name string, deprecate bool) {
	t := c.templates[dice.IntN(len(c.templates))]
	t.deprecated = !t.deprecated
	return t.name, t.deprecated
}

// calm lets nothing expire any more, fills the maximum and no more, so that a new version has no room beside the old, and
// with reliable makes everything a new version in which nothing fails.
func (c *config) calm(reliable bool) string {
	for _, t := range c.templates {
		t.calm, t.deprecated = reliable, false
		for _, p := range t.presets {
			p.ttl, p.gone = "", false
			if t.provider == "capped" && c.maximum > 0 {
				p.instances = min(p.instances, c.maximum/len(t.presets))
			}
		}
	}
	return c.document()
}

// pools is how many presets there are.
func (c *config) pools() int {
	n := 0
	for _, t := range c.templates {
		for _, p := range t.presets {
			if !p.gone {
				n++
			}
		}
	}
	return n
}

// desired is the sum of all presets' instances.
func (c *config) desired() int {
	n := 0
	for _, t := range c.templates {
		for _, p := range t.presets {
			if !p.gone {
				n += p.instances
			}
		}
	}
	return n
}
