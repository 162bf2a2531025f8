package rules

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// statement is how SQL begins. Upper case only: the words are common in messages, and `DELETE /path` is HTTP.
var statement = regexp.MustCompile(`^\s*(--[^\n]*\n\s*)*(` + strings.Join([]string{
	`SELECT\s`, `INSERT\s+INTO\s`, `UPDATE\s+\S+\s+SET\s`, `DELETE\s+FROM\s`, `WITH\s+\w+\s+AS\s`, `TRUNCATE\s`,
	`(CREATE|ALTER|DROP)\s+(TABLE|INDEX|UNIQUE|TYPE|FUNCTION|VIEW|DATABASE|ROLE|USER|EXTENSION|SCHEMA)\s`,
	`SET\s+(LOCAL\s|SESSION\s|\w+\s+(=|TO)\s)`, `(UN)?LISTEN\s`, `NOTIFY\s`, `LOCK\s+TABLE\s`, `COPY\s+\w+\s`,
	`(BEGIN|COMMIT|ROLLBACK|SAVEPOINT)\b`,
}, `|`) + `)`)

func sqlRule() Rule {
	return Rule{
		Name: "sql",
		Why:  "write it into queries/ and run `make gen`, so that it is reviewed as SQL and its types are checked",
		Check: func(t *Tree) ([]Finding, error) {
			return t.eachGo(func(f *File, report func(ast.Node, string)) {
				if strings.HasPrefix(f.Path, "database/") {
					return
				}
				for n := range ast.Preorder(f.Go) {
					literal, ok := n.(*ast.BasicLit)
					if !ok || literal.Kind != token.STRING {
						continue
					}
					if text, err := strconv.Unquote(literal.Value); err == nil && statement.MatchString(text) {
						report(literal, "SQL in a string: "+strings.Join(strings.Fields(text[:min(len(text), 40)]), " "))
					}
				}
			}), nil
		},
	}
}
