package templates

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// decoder reads nodes as what they should be. Where they are not, it notes a problem and goes on with a zero value, so
// that all problems of a file are told at once.
type decoder struct{ problems *Problems }

// setting is a key that a mapping may have, and what to do with its value.
type setting struct {
	key      string
	required bool
	read     func(ast.Node)
}

// pair is an entry of a mapping.
type pair struct {
	key   string
	at    Pos
	value ast.Node
}

// nameRule is that of the schema: names are parts of DNS labels, file names and paths.
var nameRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

const nameAdvice = `use lower-case letters and digits, with "-" between, at most 64 characters`

var parameterRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

// object reads a mapping of known keys. What is its name in messages: "template", or `preset "default"`.
func (d decoder) object(n ast.Node, what string, settings ...setting) {
	pairs, ok := d.pairs(n, what)
	if !ok {
		return
	}
	known := lists.Of(settings, func(s setting) string { return s.key })
	given := map[string]bool{}
	for _, p := range pairs {
		if d.problems.full() {
			return
		}
		i := slices.Index(known, p.key)
		if i < 0 {
			d.problems.add(p.at, "%s has no setting %q%s: it has %s", what, p.key, DidYouMean(p.key, known),
				strings.Join(known, ", "))
			continue
		}
		given[p.key] = true
		settings[i].read(p.value)
	}
	for _, s := range settings {
		if s.required && !given[s.key] {
			d.problems.add(position(n), "%s has no %s: add %q", what, s.key, s.key+":")
		}
	}
}

// pairs reads a mapping whose keys are texts, each once.
func (d decoder) pairs(n ast.Node, what string) ([]pair, bool) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.problems.add(position(n), "%s must be a mapping of settings, not %s", what, describe(n))
		return nil, false
	}
	var pairs []pair
	first := map[string]Pos{}
	for it := m.MapRange(); it.Next() && !d.problems.full(); {
		at := tokenPos(it.Key().GetToken())
		key, ok := keyText(it.Key())
		if !ok {
			d.problems.add(at, "a key of %s must be a text: put it in quotes", what)
			continue
		}
		if before, twice := first[key]; twice {
			d.problems.add(at, "%s has %q twice: the first is on line %d; remove one", what, key, before.Line)
			continue
		}
		first[key] = at
		pairs = append(pairs, pair{key: key, at: at, value: it.Value()})
	}
	return pairs, true
}

func keyText(n ast.MapKeyNode) (string, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return "", false
	}
	return s.Value, !strings.ContainsRune(s.Value, 0)
}

// list reads a list; one with nothing under its key is empty.
func (d decoder) list(n ast.Node, what string, read func(ast.Node)) {
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.SequenceNode:
		for _, item := range n.Values {
			read(item)
		}
	default:
		d.problems.add(position(n), "%s must be a list, not %s: begin each item with %q", what, describe(n), "- ")
	}
}

// text reads a text of at most maxText bytes.
func (d decoder) text(n ast.Node, what string) string {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		d.problems.add(position(n), "%s must be a text, not %s: put it in quotes", what, describe(n))
		return ""
	default:
		d.problems.add(position(n), "%s must be a text, not %s", what, describe(n))
		return ""
	}
	switch {
	case strings.ContainsRune(s, 0):
		d.problems.add(position(n), "%s has a NUL character: remove it", what)
		return ""
	case len(s) > maxText:
		d.problems.add(position(n), "%s has %d bytes: at most %d fit", what, len(s), maxText)
		return ""
	}
	return s
}

// name reads a name and checks the rule of names.
func (d decoder) name(n ast.Node, what string) string {
	s := d.text(n, what)
	if _, text := n.(*ast.StringNode); text && !nameRule.MatchString(s) {
		d.problems.add(position(n), "%s %s: %s", what, quote(s), nameAdvice)
		return ""
	}
	return s
}

func (d decoder) boolean(n ast.Node, what string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		d.problems.add(position(n), "%s must be true or false, not %s", what, describe(n))
		return false
	}
	return b.Value
}

// integer reads a whole number between least and most. why says where most comes from, where that helps.
func (d decoder) integer(n ast.Node, what string, least, most int32, why string) int32 {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		d.problems.add(position(n), "%s must be a whole number, not %s", what, describe(n))
		return least
	}
	value := int64(math.MaxInt64)
	switch v := i.Value.(type) {
	case int64:
		value = v
	case uint64:
		if v < math.MaxInt64 {
			value = int64(v)
		}
	}
	if value < int64(least) || value > int64(most) {
		d.problems.add(position(n), "%s is %s: it must be between %d and %d%s", what, n.GetToken().Value, least, most, why)
		return least
	}
	return int32(value)
}

// integerInto is a setting that is a whole number and nothing else.
func (d decoder) integerInto(to *int32, key string, least, most int32, why string) setting {
	return setting{key: key, read: func(n ast.Node) { *to = d.integer(n, key, least, most, why) }}
}

// durationInto is a setting that is a duration and nothing else.
func (d decoder) durationInto(to *time.Duration, key string, most time.Duration) setting {
	return setting{key: key, read: func(n ast.Node) { *to = d.duration(n, key, most) }}
}

// duration reads whole seconds between one and most.
func (d decoder) duration(n ast.Node, what string, most time.Duration) time.Duration {
	const examples = `write it like "90s", "30m" or "8h"`
	s, ok := n.(*ast.StringNode)
	if !ok {
		d.problems.add(position(n), "%s must be a duration, not %s: %s", what, describe(n), examples)
		return 0
	}
	value, err := time.ParseDuration(s.Value)
	switch {
	case err != nil:
		d.problems.add(position(n), "%s %s is not a duration: %s; a day is 24h", what, quote(s.Value), examples)
		return 0
	case value < time.Second || value > most:
		d.problems.add(position(n), "%s is %s: it must be between 1s and %s", what, s.Value, most)
		return 0
	case value%time.Second != 0:
		d.problems.add(position(n), "%s is %s: it must be whole seconds", what, s.Value)
		return 0
	}
	return value
}
