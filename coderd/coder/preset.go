package coder

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// nameOfParameter is what a configuration file takes as one.
var nameOfParameter = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

func (r *reader) parameter(b *hclsyntax.Block, label string) {
	name, known := r.text(b.Body, "name")
	switch {
	case !known:
		r.leave(b.DefRange(), label, "only a run knows its name: it has its default in each workspace")
		return
	case !nameOfParameter.MatchString(name):
		r.leave(b.Body.Attributes["name"].SrcRange, label, "%q cannot be the name of a parameter here: it has its default in each workspace", name)
		return
	}
	p := parameter{label: label, name: name, at: b.DefRange()}
	if value, there := b.Body.Attributes["default"]; there {
		if text, known := r.text(b.Body, "default"); known {
			p.value = &text
		} else {
			r.leave(value.SrcRange, label+".default", "only a run knows it: it holds where a preset says nothing else")
			p.value = new("")
			p.name = ""
		}
	}
	for _, kind := range []string{"option", "validation"} {
		if in := inner(b.Body, kind); len(in) > 0 {
			r.leave(in[0].DefRange(), label+"."+kind, "it is checked when a workspace is made, and not when the file is applied")
		}
	}
	r.parameters = append(r.parameters, p)
}

// presets reads them, each with all parameters that have a value.
func (r *reader) presets() {
	names := map[string]bool{}
	for _, b := range r.blocks {
		if b.Type != "data" || len(b.Labels) != 2 || b.Labels[0] != "coder_workspace_preset" {
			continue
		}
		label := "data.coder_workspace_preset." + b.Labels[1]
		given, known := r.text(b.Body, "name")
		if !known {
			given = b.Labels[1]
		}
		p := Preset{Name: unused(Name(given), names), Parameters: map[string]string{}}
		if p.Name != given {
			r.leave(b.DefRange(), label, "its name is %s here", p.Name)
		}
		if r.isTrue(b.Body, "default") {
			r.leave(b.Body.Attributes["default"].SrcRange, label+".default", "there is no default: a claim names its preset")
		}
		if attribute, there := b.Body.Attributes["parameters"]; there {
			r.values(attribute.Expr, label, p.Parameters)
		}
		r.defaults(&p, b.DefRange(), label)
		for _, in := range inner(b.Body, "prebuilds") {
			p.Prebuilds = r.prebuilds(in, label+".prebuilds")
		}
		r.Presets = append(r.Presets, p)
	}
	if len(r.Presets) > 0 {
		return
	}
	p := Preset{Name: "default", Parameters: map[string]string{}}
	r.defaults(&p, r.blocks[0].DefRange(), "preset default")
	r.Presets = []Preset{p}
}

// defaults adds parameters that a preset does not have.
func (r *reader) defaults(p *Preset, at hcl.Range, label string) {
	for _, of := range r.parameters {
		_, given := p.Parameters[of.name]
		switch {
		case given || of.name == "":
		case of.value != nil:
			p.Parameters[of.name] = *of.value
		default:
			r.leave(at, label, "parameter %s has no default, and no value here: give it one, or no workspace can be made", of.name)
		}
	}
}

// values reads the parameters of a preset. What only a run knows is left out, one by one.
func (r *reader) values(e hcl.Expression, label string, into map[string]string) {
	unknown := func(at hcl.Range, name string) {
		r.leave(at, label+".parameters"+name, "only a run knows it: give it a value here")
	}
	take := func(at hcl.Range, name string, v cty.Value) {
		text, is := textOf(v)
		switch {
		case !is:
			unknown(at, "."+name)
		case !nameOfParameter.MatchString(name):
			r.leave(at, label+".parameters", "%q cannot be the name of a parameter here: it has its default in each workspace", name)
		default:
			into[name] = text
		}
	}
	object, written := e.(*hclsyntax.ObjectConsExpr)
	if !written {
		v, known := r.constant(e)
		if !known || !v.CanIterateElements() || !(v.Type().IsObjectType() || v.Type().IsMapType()) {
			unknown(e.Range(), "")
			return
		}
		all := v.AsValueMap()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			take(e.Range(), name, all[name])
		}
		return
	}
	for _, item := range object.Items {
		key, known := r.constant(item.KeyExpr)
		name, is := "", false
		if known {
			name, is = textOf(key)
		}
		if !is {
			unknown(item.KeyExpr.Range(), "")
			continue
		}
		if v, known := r.constant(item.ValueExpr); known {
			take(item.KeyExpr.Range(), name, v)
		} else {
			unknown(item.KeyExpr.Range(), "."+name)
		}
	}
}

func (r *reader) prebuilds(b *hclsyntax.Block, label string) *Prebuilds {
	n, known := r.number(b.Body, "instances")
	if !known {
		r.leave(b.DefRange(), label+".instances", "only a run knows it: the pool has 0 until you write another number")
	}
	p := &Prebuilds{Instances: n}
	for _, in := range inner(b.Body, "expiration_policy") {
		if p.TTL, known = r.number(in.Body, "ttl"); !known {
			r.leave(in.DefRange(), label+".expiration_policy.ttl", "only a run knows it: prebuilds do not expire")
		}
	}
	for _, in := range inner(b.Body, "scheduling") {
		p.Timezone, _ = r.text(in.Body, "timezone")
		for _, s := range inner(in.Body, "schedule") {
			cron, isText := r.text(s.Body, "cron")
			n, isNumber := r.number(s.Body, "instances")
			if !isText || !isNumber {
				r.leave(s.DefRange(), label+".scheduling.schedule", "only a run knows when it is, or how many")
				continue
			}
			p.Ranges = append(p.Ranges, Range{cron, n})
		}
		for _, dynamic := range inner(in.Body, "dynamic") {
			r.leave(dynamic.DefRange(), label+".scheduling", "only a run knows it")
		}
	}
	return p
}

var notOfName = regexp.MustCompile(`[^a-z0-9]+`)

const mostName = 64

// Name is a text as the name of a template or a preset.
func Name(text string) string {
	name := strings.Trim(notOfName.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if name = strings.Trim(name[:min(len(name), mostName)], "-"); name == "" {
		return "default"
	}
	return name
}

// unused is a name, or one with a number behind it.
func unused(name string, names map[string]bool) string {
	is := name
	for n := 2; names[is]; n++ {
		number := "-" + strconv.Itoa(n)
		is = strings.TrimRight(name[:min(len(name), mostName-len(number))], "-") + number
	}
	names[is] = true
	return is
}
