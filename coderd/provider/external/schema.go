package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// schema is a JSON schema that an executable gave us; nil takes everything.
type schema struct {
	compiled *jsonschema.Schema
	raw      any
}

const schemaURL = "prewarm:schema"

// parseSchema takes an executable's schema. It refers to nothing outside itself: nothing is fetched for it.
func parseSchema(text []byte) (*schema, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, nil //nolint:nilnil // no schema is a schema that takes everything
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, xerrors.Errorf("read schema: %w", err)
	}
	// Some executables name a schema of schemas of their own, that nobody can fetch.
	if object, ok := doc.(map[string]any); ok {
		if dialect, _ := object["$schema"].(string); !strings.Contains(dialect, "json-schema.org/") {
			delete(object, "$schema")
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return nil, xerrors.Errorf("read schema: %w", err)
	}
	compiled, err := compiler.Compile(schemaURL)
	if err != nil {
		return nil, xerrors.Errorf("compile schema: %w", err)
	}
	return &schema{compiled, doc}, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, xerrors.Errorf("it refers to %s, outside itself", url)
}

// problems are all that the schema says is wrong with a document.
func (s *schema) problems(document json.RawMessage) []provider.Problem {
	if s == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return []provider.Problem{{Message: "must be JSON"}}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(s.compiled.Validate(value), &invalid) {
		return nil
	}
	var problems []provider.Problem
	printer := message.NewPrinter(language.English)
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			visit(cause)
		}
		if len(e.Causes) == 0 {
			problems = append(problems, provider.Problem{
				Path:    strings.Join(e.InstanceLocation, "."),
				Message: e.ErrorKind.LocalizedString(printer),
			})
		}
	}
	visit(invalid)
	return problems
}

// has says whether the schema knows a property of that name anywhere.
func (s *schema) has(property string) bool {
	if s == nil {
		return false
	}
	var search func(node any) bool
	search = func(node any) bool {
		switch node := node.(type) {
		case map[string]any:
			if properties, ok := node["properties"].(map[string]any); ok {
				if _, ok := properties[property]; ok {
					return true
				}
			}
			return slices.ContainsFunc(slices.Collect(maps.Values(node)), search)
		case []any:
			return slices.ContainsFunc(node, search)
		}
		return false
	}
	return search(s.raw)
}
