package templates

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Parse reads a configuration file. The error is *Problems with everything wrong that can be seen without looking at
// the world. file is its name in messages.
func Parse(file, source string) (*Document, error) {
	problems := &Problems{File: file}
	doc := parse(file, source, problems)
	if err := problems.err(); err != nil {
		return nil, err
	}
	return doc, nil
}

func parse(file, source string, problems *Problems) *Document {
	doc := &Document{File: file}
	root := readYAML(source, problems)
	if root == nil {
		return doc
	}
	d := decoder{problems: problems}
	d.object(root, "the file",
		setting{key: "providers", read: func(n ast.Node) {
			d.list(n, "providers", func(n ast.Node) { doc.Providers = append(doc.Providers, d.provider(n)) })
		}},
		setting{key: "templates", read: func(n ast.Node) {
			d.list(n, "templates", func(n ast.Node) { doc.Templates = append(doc.Templates, d.template(n)) })
		}})
	if len(doc.Providers)+len(doc.Templates)+len(problems.List) == 0 {
		problems.add(position(root), "the file has neither templates nor providers: there is nothing to apply")
	}
	providers, templates := uniqueNames{d, "provider"}, uniqueNames{d, "template"}
	providers.check(len(doc.Providers), func(i int) (string, Pos) { return doc.Providers[i].Name, doc.Providers[i].at })
	templates.check(len(doc.Templates), func(i int) (string, Pos) { return doc.Templates[i].Name, doc.Templates[i].at })
	return doc
}

func (d decoder) template(n ast.Node) Template {
	t := Template{
		BootTimeout: defaultBoot, KeepOutdated: true, Rollout: defaultRollout(),
		KeepFailures: KeepFailures{TTL: defaultKeptTTL}, at: position(n),
	}
	what := titled(n, "template")
	reuse := d.reuse(&t)
	d.object(n, what,
		setting{key: "name", required: true, read: func(n ast.Node) { t.Name, t.at = d.name(n, "template name"), position(n) }},
		setting{key: "description", read: func(n ast.Node) { t.Description = d.text(n, "description") }},
		setting{key: "provider", required: true, read: func(n ast.Node) {
			t.Provider, t.providerAt = d.name(n, "provider name"), position(n)
		}},
		setting{key: "keep_outdated", read: func(n ast.Node) { t.KeepOutdated = d.boolean(n, "keep_outdated") }},
		setting{key: "rollout", read: func(n ast.Node) { t.Rollout = d.rollout(n) }},
		setting{key: "creates_in_flight", read: func(n ast.Node) { t.CreatesInFlight = d.inFlight(n) }},
		d.durationInto(&t.BootTimeout, "boot_timeout", maxBoot),
		setting{key: "idle_cost_per_hour", read: func(n ast.Node) { t.IdleCost = d.cost(n, "idle_cost_per_hour") }},
		setting{key: "stopped_cost_per_hour", read: func(n ast.Node) {
			cost := d.cost(n, "stopped_cost_per_hour")
			t.StoppedCost = &cost
		}},
		setting{key: "spec", required: true, read: func(n ast.Node) {
			t.specAt = position(n)
			t.Spec, t.spec = d.freeform(n, "spec")
		}},
		setting{key: "agent", read: func(n ast.Node) { t.Agent, t.agentAt = d.agent(n), position(n) }},
		setting{key: "keep_failures", read: func(n ast.Node) { t.KeepFailures = d.keepFailures(n) }},
		reuse[0], reuse[1],
		setting{key: "claims", read: func(n ast.Node) { t.Claims = d.claims(n) }},
		setting{key: "presets", read: func(n ast.Node) {
			d.list(n, "presets", func(n ast.Node) { t.Presets = append(t.Presets, d.preset(n)) })
		}})
	d.checkReuse(&t)
	d.checkQuota(&t)
	d.checkRunners(&t)
	presets := uniqueNames{d, "preset of " + what}
	presets.check(len(t.Presets), func(i int) (string, Pos) { return t.Presets[i].Name, t.Presets[i].at })
	return t
}

func (d decoder) preset(n ast.Node) Preset {
	p := Preset{Parameters: map[string]string{}, parameters: positions{}, at: position(n)}
	d.object(n, titled(n, "preset"),
		setting{key: "name", required: true, read: func(n ast.Node) { p.Name, p.at = d.name(n, "preset name"), position(n) }},
		setting{key: "parameters", read: func(n ast.Node) { d.parameters(n, &p) }},
		setting{key: "prebuilds", read: func(n ast.Node) { p.Prebuilds = d.prebuilds(n) }},
		setting{key: "runner", read: func(n ast.Node) { p.Runner = d.runner(n) }})
	d.checkRunner(p)
	return p
}

// parameters reads texts, numbers and booleans, all of which are texts to a provider: as they are written.
func (d decoder) parameters(n ast.Node, p *Preset) {
	if _, nothing := n.(*ast.NullNode); nothing {
		return
	}
	pairs, _ := d.pairs(n, "parameters")
	if len(pairs) > maxParameters {
		d.problems.add(position(n), "parameters has %d entries: at most %d are possible", len(pairs), maxParameters)
		return
	}
	for _, pair := range pairs {
		p.parameters[pair.key] = pair.at
		if !parameterRule.MatchString(pair.key) {
			d.problems.add(pair.at, "parameter name %s: use letters, digits and _ . - after a letter or _, at most 128 "+
				"characters", quote(pair.key))
			continue
		}
		switch v := pair.value.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			p.Parameters[pair.key] = v.GetToken().Value
		case *ast.StringNode, *ast.LiteralNode:
			p.Parameters[pair.key] = d.text(v, "parameter "+pair.key)
		default:
			d.problems.add(position(v), "parameter %s must be a text, a number, true or false, not %s", pair.key, describe(v))
		}
	}
}

func (d decoder) prebuilds(n ast.Node) *Prebuilds {
	p := Prebuilds{TTLJitter: defaultTTLJitter}
	remainingAt := position(n)
	d.object(n, "prebuilds",
		setting{key: "instances", required: true, read: func(n ast.Node) {
			if p.AllMachines = isAll(n); p.AllMachines {
				p.instancesAt = position(n)
				return
			}
			p.Instances = d.integer(n, "instances", 0, MaxInstances, "")
		}},
		setting{key: "schedule", read: func(n ast.Node) { p.Schedule = d.schedule(n) }},
		d.durationInto(&p.TTL, "ttl", maxTTL),
		setting{key: "ttl_jitter", read: func(n ast.Node) { p.TTLJitter = d.percent(n, "ttl_jitter", maxTTLJitter) }},
		setting{key: "min_remaining", read: func(n ast.Node) {
			p.MinRemaining, remainingAt = d.duration(n, "min_remaining", maxTTL), position(n)
		}},
		d.integerInto(&p.Priority, "priority", -maxPriority, maxPriority, ""),
		setting{key: "creates_in_flight", read: func(n ast.Node) { p.CreatesInFlight = d.inFlight(n) }},
		setting{key: "autosize", read: func(n ast.Node) { p.Autosize = d.autosize(n) }},
		setting{key: "standby", read: func(n ast.Node) { p.Standby = d.standby(n) }})
	if p.AllMachines && p.Autosize != nil {
		d.problems.add(p.instancesAt, "instances is all: that leaves nothing for autosize to choose, so leave one of the two out")
	}
	switch least := p.TTL - p.TTL*time.Duration(p.TTLJitter)/100; {
	case p.MinRemaining == 0:
	case p.TTL == 0:
		d.problems.add(remainingAt, "min_remaining is %s, but there is no ttl: add one, or leave min_remaining out", p.MinRemaining)
	case p.MinRemaining >= least:
		d.problems.add(remainingAt, "min_remaining is %s: it must be less than %s, which is the ttl less its jitter of %d%%; "+
			"nothing could ever be claimed", p.MinRemaining, least, p.TTLJitter)
	}
	return &p
}

// inFlight reads a limit of what is being built at once.
func (d decoder) inFlight(n ast.Node) *int32 {
	limit := d.integer(n, "creates_in_flight", 1, maxLimit, ": with 0 nothing would ever be created")
	return &limit
}

// titled is how messages call an object: by its name where it has one that can be told.
func titled(n ast.Node, what string) string {
	m, ok := n.(ast.MapNode)
	if !ok {
		return what
	}
	for it := m.MapRange(); it.Next(); {
		value, text := it.Value().(*ast.StringNode)
		if key, ok := keyText(it.Key()); ok && text && key == "name" && nameRule.MatchString(value.Value) {
			return fmt.Sprintf("%s %q", what, value.Value)
		}
	}
	return what
}

// uniqueNames notes names that are used twice.
type uniqueNames struct {
	decoder
	what string
}

func (u uniqueNames) check(n int, name func(int) (string, Pos)) {
	first := map[string]Pos{}
	for i := range n {
		s, at := name(i)
		if s == "" {
			continue
		}
		if before, twice := first[s]; twice {
			u.problems.add(at, "%s: the name %q is used twice, first on line %d: rename one", u.what, s, before.Line)
			continue
		}
		first[s] = at
	}
}
