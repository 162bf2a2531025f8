package rules

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
)

// words are the names of fields that hold what people read: why something is so. None of them is looked into.
var words = map[string]bool{
	"Reason": true, "Reasons": true, "Sentence": true, "Headline": true, "Expected": true, "Paused": true, "PausedReason": true,
	"Attention": true, "Detail": true,
}

// parsers are what looks into a text: functions of strings, and methods of regular expressions.
var parsers = regexp.MustCompile(`^(Has|Contains|Index|LastIndex|Cut|Trim(Prefix|Suffix|Left|Right)|Split|Fields|EqualFold|Count|` +
	`Replace|Match|Find)`)

// The same outside of Go: in pages a method called on such a field, in SQL a pattern beside such a column or key.
var (
	parsedInPages = regexp.MustCompile(`\b((?:reasons?|sentence|headline|expected|paused|attention(?:\??\.text)?)(?:\[\w+\])?\??\.` +
		`(?:replace(?:All)?|startsWith|endsWith|includes|match(?:All)?|split|indexOf|search)\()`)
	parsedInSQL = regexp.MustCompile(`(?i)((?:\breason'?|\bledger::text|\bsentence'?)\)?\s*(?:NOT\s+)?(?:LIKE|ILIKE|~\*?|SIMILAR)\s` +
		`|(?:starts_with|strpos|regexp_\w+|split_part|substring)\([^)]*\breason\b)`)
)

func reasonsRule() Rule {
	return Rule{
		Name: "reasons",
		Why:  "look at the code beside it (prebuilds.Reason, reason_code): words may be bettered, and old rows have others",
		Check: func(t *Tree) ([]Finding, error) {
			findings := t.eachGo(func(f *File, report func(ast.Node, string)) { parsesReasons(f.Go, report) })
			patterns := map[string]*regexp.Regexp{".ts": parsedInPages, ".tsx": parsedInPages, ".sql": parsedInSQL}
			return append(findings, t.grep(func(f *File) *regexp.Regexp { return patterns[path.Ext(f.Path)] })...), nil
		},
	}
}

// parsesReasons reports calls that look into such a field, its comparison with a text, and parts that are cut out of it.
func parsesReasons(file *ast.File, report func(ast.Node, string)) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !parsers.MatchString(fun.Sel.Name) {
				break
			}
			for _, arg := range n.Args {
				if name, found := wordsIn(arg); found {
					report(n, fun.Sel.Name+" of "+name)
				}
			}
		case *ast.BinaryExpr:
			for _, sides := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
				name, found := wordsIn(sides[0])
				if found && (n.Op == token.EQL || n.Op == token.NEQ) && isText(sides[1]) {
					report(n, name+" compared with a text")
				}
			}
		case *ast.SwitchStmt:
			if name, found := wordsIn(n.Tag); found {
				report(n, "switch of "+name)
			}
		case *ast.SliceExpr:
			if name, found := wordsIn(n.X); found && name != "Reasons" {
				report(n, "a part of "+name)
			}
		}
		return true
	})
}

// wordsIn is the field, where an expression is one of those; a variable may be called so too.
func wordsIn(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name, words[e.Sel.Name]
	case *ast.Ident:
		return e.Name, e.Name == "reason"
	}
	return "", false
}

// isText says whether an expression is a literal that says something.
func isText(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(literal.Value)
	return err == nil && text != ""
}
