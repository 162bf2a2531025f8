package templates

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readYAML returns the root of the one document in source, nil with problems noted where there is none. It refuses
// what the rest need not understand and what would make the parser slow or deep, before the parser sees it.
func readYAML(source string, problems *Problems) (root ast.Node) {
	switch {
	case len(source) > maxSource:
		problems.add(Pos{}, "the file has %d bytes, at most %d are read: split it", len(source), maxSource)
		return nil
	case !utf8.ValidString(source):
		at := len(bytes.ToValidUTF8([]byte(source), nil))
		for i, r := range source {
			if r == utf8.RuneError {
				at = i
				break
			}
		}
		problems.add(offset(source, at), "the file is not UTF-8: save it as UTF-8")
		return nil
	case bytes.IndexByte([]byte(source), 0) >= 0:
		problems.add(offset(source, bytes.IndexByte([]byte(source), 0)), "the file has a NUL byte: is it a text file?")
		return nil
	}
	if n := marks(source); n > maxMarks {
		problems.add(Pos{}, "the file has %d marks (brackets, quotes, commas, colons, dashes), at most %d are read: split it", n, maxMarks)
		return nil
	}
	if repeats(source, problems) {
		return nil
	}
	defer func() { // The parser is not ours, and some nonsense makes it panic.
		if r := recover(); r != nil {
			problems.add(Pos{}, "malformed YAML: %v", r)
			root = nil
		}
	}()
	tokens := lexer.Tokenize(source)
	if !admissible(tokens, problems) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := syntaxError(err)
		problems.add(at, "malformed YAML: %s", message)
		return nil
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType:
		case root != nil:
			problems.add(position(doc.Body), "a second YAML document begins here: put all into one, or apply them one by one")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		problems.add(Pos{}, "the file is empty: it needs templates, providers or both")
	}
	return root
}

// syntaxError takes place and message out of the parser's error, whose text quotes the source.
func syntaxError(err error) (Pos, string) {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &at) || at.GetToken() == nil {
		return Pos{}, err.Error()
	}
	return tokenPos(at.GetToken()), at.GetMessage()
}

func tokenPos(t *token.Token) Pos {
	if t == nil || t.Position == nil {
		return Pos{}
	}
	return Pos{Line: t.Position.Line, Column: t.Position.Column}
}

// position is where a node begins.
func position(n ast.Node) Pos {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return tokenPos(m.Values[0].Key.GetToken())
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return tokenPos(m.Key.GetToken())
	}
	return tokenPos(n.GetToken())
}

// offset is the place of a byte.
func offset(source string, at int) Pos {
	before := source[:min(at, len(source))]
	line := bytes.Count([]byte(before), []byte("\n"))
	return Pos{Line: line + 1, Column: len(before) - bytes.LastIndexByte([]byte(before), '\n')}
}

// describe says what a node is, for a message that expected something else.
func describe(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return fmt.Sprintf("the text %s", quote(n.Value))
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a mapping"
	default:
		return "something else"
	}
}

// quote quotes a value for a message, cut where it is long.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}
