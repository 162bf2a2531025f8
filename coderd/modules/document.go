package modules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// GitPrefix begins the source of a module in Git, as in Terraform.
const GitPrefix = "git::"

// InGit says whether the source of a module is one in Git.
func InGit(source string) bool { return strings.HasPrefix(source, GitPrefix) }

// Place is where a configuration file has a text as the module of a spec.
type Place struct {
	Provider     string // of the template
	Text         string
	Line, Column int // from 1
}

// Places are those of a configuration file, and the kinds of the providers that it declares. Both are empty where it cannot be read: what
// is wrong with it is for the server to say.
func Places(source string) (places []Place, kinds map[string]string) {
	kinds = map[string]string{}
	if !strings.Contains(source, "module") {
		return nil, kinds
	}
	defer func() {
		if recover() != nil { // the parser is not ours, and some nonsense makes it panic
			places = nil
		}
	}()
	source = strings.ReplaceAll(source, "\r\n", "\n") // the parser takes it for two lines
	parsed, err := parser.ParseBytes([]byte(source), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, kinds
	}
	for _, doc := range parsed.Docs {
		for _, p := range items(value(doc.Body, "providers")) {
			kinds[text(value(p, "name"))] = text(value(p, "kind"))
		}
		for _, t := range items(value(doc.Body, "templates")) {
			module, is := value(value(t, "spec"), "module").(*ast.StringNode)
			if !is || IsDigest(module.Value) {
				continue
			}
			at := module.GetToken().Position
			places = append(places, Place{text(value(t, "provider")), module.Value, at.Line, at.Column})
		}
	}
	return places, kinds
}

// value is that of a key of a mapping; nil where there is none.
func value(n ast.Node, key string) ast.Node {
	m, is := n.(ast.MapNode)
	if !is {
		return nil
	}
	for it := m.MapRange(); it.Next(); {
		if k, is := it.Key().(*ast.StringNode); is && k.Value == key {
			return it.Value()
		}
	}
	return nil
}

func items(n ast.Node) []ast.Node {
	if list, is := n.(*ast.SequenceNode); is {
		return list.Values
	}
	return nil
}

func text(n ast.Node) string {
	if s, is := n.(*ast.StringNode); is {
		return s.Value
	}
	return ""
}

// Replace puts a text in the place of another. All else stays where it is, so that what the server says of a line is of that line. False:
// the text is not written on one line as it is meant.
func Replace(source string, at Place, with string) (string, bool) {
	lines := strings.SplitAfter(source, "\n")
	if at.Line > len(lines) {
		return source, false
	}
	line := []rune(lines[at.Line-1])
	if at.Column > len(line) {
		return source, false
	}
	before, rest := string(line[:at.Column-1]), string(line[at.Column-1:])
	written := []string{at.Text, "'" + strings.ReplaceAll(at.Text, "'", "''") + "'", strconv.Quote(at.Text)}
	i := slices.IndexFunc(written, func(as string) bool { return strings.HasPrefix(rest, as) })
	if i < 0 {
		return source, false
	}
	lines[at.Line-1] = before + with + strings.TrimPrefix(rest, written[i])
	return strings.Join(lines, ""), true
}
