package templates

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"golang.org/x/xerrors"
)

// positions says where in the file each part of a free-form value is, by its path: "readiness.tcp", "command.0".
type positions map[string]Pos

// find is the place of a path, or of the nearest part around it that has one. Indexes may be written as [0] or .0.
func (p positions) find(path string) (Pos, bool) {
	path = strings.NewReplacer("[", ".", "]", "").Replace(path)
	for path != "" {
		if at, ok := p[path]; ok {
			return at, true
		}
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
	return Pos{}, false
}

// freeform reads a mapping whose settings are somebody else's business, such as a spec, as canonical JSON.
func (d decoder) freeform(n ast.Node, what string) (json.RawMessage, positions) {
	if _, ok := n.(ast.MapNode); !ok {
		d.problems.add(position(n), "%s must be a mapping of settings, not %s", what, describe(n))
		return nil, nil
	}
	before := len(d.problems.List)
	at := positions{}
	value := d.value(n, what, "", 1, at)
	if len(d.problems.List) > before {
		return nil, at
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		d.problems.add(position(n), "%s cannot be written as JSON: %v", what, err)
		return nil, at
	}
	return encoded, at
}

func (d decoder) value(n ast.Node, what, path string, depth int, at positions) any {
	if path != "" {
		at[path] = position(n)
	}
	if depth > maxDepth {
		d.problems.add(position(n), "nested too deeply: at most %d levels", maxDepth)
		return nil
	}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil
	case ast.MapNode:
		object := map[string]any{}
		pairs, _ := d.pairs(n.(ast.Node), strings.TrimSuffix(what+" "+path, " ")) //nolint:forcetypeassert // It was one.
		for _, p := range pairs {
			object[p.key] = d.value(p.value, what, join(path, p.key), depth+1, at)
			at[join(path, p.key)] = p.at
		}
		return object
	case *ast.SequenceNode:
		items := make([]any, len(n.Values))
		for i, item := range n.Values {
			items[i] = d.value(item, what, join(path, strconv.Itoa(i)), depth+1, at)
		}
		return items
	default:
		return d.scalar(n)
	}
}

func (d decoder) scalar(n ast.Node) any {
	switch n := n.(type) {
	case *ast.StringNode:
		return d.plain(n, n.Value)
	case *ast.LiteralNode:
		return d.plain(n, n.Value.Value)
	case *ast.IntegerNode:
		return n.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.FloatNode:
		if !math.IsInf(n.Value, 0) && !math.IsNaN(n.Value) {
			return n.Value
		}
	}
	d.problems.add(position(n), "%s is not a value that JSON has: put it in quotes", quote(n.GetToken().Value))
	return nil
}

func (d decoder) plain(n ast.Node, s string) string {
	if strings.ContainsRune(s, 0) {
		d.problems.add(position(n), "the text has a NUL character: remove it")
		return ""
	}
	return s
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// canonical is JSON with its keys sorted, no space, and numbers in their shortest form, so that equal values are equal
// bytes, whether they come from a file or from a jsonb column.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	value, err := decoded(raw)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(withNumbers(value, shortest))
	if err != nil {
		return nil, xerrors.Errorf("encode JSON: %w", err)
	}
	return encoded, nil
}

// decoded is a value with its numbers as they are written.
func decoded(raw json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, xerrors.Errorf("decode JSON: %w", err)
	}
	return value, nil
}

// withNumbers is a decoded value with each of its numbers written in another way. It changes the value.
func withNumbers(value any, write func(json.Number) any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = withNumbers(item, write)
		}
	case []any:
		for i, item := range v {
			v[i] = withNumbers(item, write)
		}
	case json.Number:
		return write(v)
	}
	return value
}

func shortest(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	f, err := n.Float64()
	switch {
	case err != nil:
		return n
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return int64(f)
	}
	return f
}
