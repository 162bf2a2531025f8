package coder

import (
	"net/url"
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"golang.org/x/xerrors"
)

// evaluate finds what is constant: what the blocks can name of one another.
func (r *reader) evaluate() {
	variables, locals := map[string]cty.Value{}, map[string]cty.Value{}
	r.scope = &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: r.functions()}
	show := func() {
		r.scope.Variables["var"], r.scope.Variables["local"] = cty.ObjectVal(variables), cty.ObjectVal(locals)
	}
	r.scope.Variables["path"] = cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal("."), "root": cty.StringVal(".")})
	show()
	for _, b := range r.blocks {
		if b.Type == "variable" && len(b.Labels) == 1 {
			if v, known := r.value(b.Body, "default"); known {
				variables[b.Labels[0]] = v
			}
		}
	}
	for before := -1; before < len(locals); { // they may name one another, in any order
		before = len(locals)
		show()
		for _, b := range r.blocks {
			if b.Type != "locals" {
				continue
			}
			for name := range b.Body.Attributes {
				if v, known := r.value(b.Body, name); known {
					locals[name] = v
				}
			}
		}
	}
	parameters := map[string]cty.Value{}
	for _, b := range r.blocks {
		if b.Type != "data" || len(b.Labels) != 2 || b.Labels[0] != "coder_parameter" {
			continue
		}
		if name, known := r.text(b.Body, "name"); known {
			parameters[b.Labels[1]] = cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(name)})
		}
	}
	r.scope.Variables["data"] = cty.ObjectVal(map[string]cty.Value{"coder_parameter": cty.ObjectVal(parameters)})
}

// functions are those that constants are made by.
func (r *reader) functions() map[string]function.Function {
	to := func(kind cty.Type) function.Function { return stdlib.MakeToFunc(kind) }
	return map[string]function.Function{
		"jsonencode": stdlib.JSONEncodeFunc, "format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "concat": stdlib.ConcatFunc,
		"lower": stdlib.LowerFunc, "upper": stdlib.UpperFunc, "trimspace": stdlib.TrimSpaceFunc, "coalesce": stdlib.CoalesceFunc,
		"merge": stdlib.MergeFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc, "replace": stdlib.ReplaceFunc,
		"tostring": to(cty.String), "tonumber": to(cty.Number), "tobool": to(cty.Bool),
		"file": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				name := path.Clean(args[0].AsString())
				for _, f := range r.files {
					if f.Name == name {
						return cty.StringVal(string(f.Content)), nil
					}
				}
				return cty.NilVal, xerrors.Errorf("there is no file %q", name)
			},
		}),
	}
}

// value is that of an attribute; false: there is none, it is null, or only a run knows it.
func (r *reader) value(body *hclsyntax.Body, name string) (cty.Value, bool) {
	attribute, there := body.Attributes[name]
	if !there {
		return cty.NilVal, false
	}
	return r.constant(attribute.Expr)
}

func (r *reader) constant(e hcl.Expression) (cty.Value, bool) {
	v, wrong := e.Value(r.scope)
	return v, !wrong.HasErrors() && v.IsWhollyKnown() && !v.IsNull()
}

// text is an attribute as a text: of a number or a boolean, how it is written.
func (r *reader) text(body *hclsyntax.Body, name string) (string, bool) {
	v, known := r.value(body, name)
	if !known {
		return "", false
	}
	return textOf(v)
}

func textOf(v cty.Value) (string, bool) {
	v, err := convert.Convert(v, cty.String)
	if err != nil || v.IsNull() || !v.IsKnown() {
		return "", false
	}
	return v.AsString(), true
}

// number is an attribute as a whole number.
func (r *reader) number(body *hclsyntax.Body, name string) (int, bool) {
	v, known := r.value(body, name)
	if !known {
		return 0, false
	}
	v, err := convert.Convert(v, cty.Number)
	if err != nil || v.IsNull() {
		return 0, false
	}
	n, accuracy := v.AsBigFloat().Int64()
	return int(n), accuracy == 0
}

// isTrue says whether an attribute is known to be true.
func (r *reader) isTrue(body *hclsyntax.Body, name string) bool {
	is, known := r.text(body, name)
	return known && is == "true"
}

// port is that of the url of an app inside of the workspace; empty: it names none. What a run alone knows may follow it.
func (r *reader) port(b *hclsyntax.Block) string {
	attribute, there := b.Body.Attributes["url"]
	if !there {
		return ""
	}
	text := ""
	if v, known := r.constant(attribute.Expr); known {
		text, _ = textOf(v)
	} else if template, is := attribute.Expr.(*hclsyntax.TemplateExpr); is && len(template.Parts) > 1 {
		if v, known := r.constant(template.Parts[0]); known {
			if text, _ = textOf(v); !strings.ContainsAny(strings.TrimPrefix(text, "http://"), "/?") {
				return "" // the port itself may go on
			}
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if host := u.Hostname(); host != "localhost" && host != "127.0.0.1" {
		return ""
	}
	return u.Port()
}

// inner are the blocks of a kind within another.
func inner(body *hclsyntax.Body, kind string) (all []*hclsyntax.Block) {
	for _, b := range body.Blocks {
		if b.Type == kind {
			all = append(all, b)
		}
	}
	return all
}
