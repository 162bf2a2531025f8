package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// plain has the words that readers stumble over, and what to write in their place. A phrase may go over the end of a line.
var plain = []struct {
	words   *regexp.Regexp
	instead string
}{
	{phrase(`why it is so`), `"why this state"`},
	{phrase(`as many as the preset is to have`), `"desired"`},
	{phrase(`(?:is|are) ready already`), `"ready"`},
	{phrase(`no such thing`), `"not found"`},
	{phrase(`has no end`), `"never expires"`},
	{phrase(`(?:what|all|none|nothing|anything) of it`), `"details", "everything", "nothing", or the noun`},
	{phrase(`what (?:comes|came|becomes|became) of`), `"outcome", or what happens`},
	{phrase(`come about`), `"progress"`},
	{phrase(`(?:a retry )?cannot mend`), `"will not succeed on retry"`},
	{phrase(`like new`), `"reset"`},
	{phrase(`told`), `"notified", "asked", "reported", "configured": who does what`},
	{phrase(`anew`), `"again"`},
	{phrase(`beside`), `"next to", "in addition to", "with", "compared with"`},
	{phrase(`whoever`), `"everybody who", "the user who", or the noun`},
}

func phrase(words string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(words, " ", `\s+`) + `\b`)
}

// pages are the folders of Markdown that users read. Records of decisions, of measurements and of proofs are for developers.
var pages = map[string]bool{".": true, "docs": true, "docs/providers": true}

// notPages are files there that are generated, grow with each change, or have an owner of their own.
var notPages = map[string]bool{"CHANGELOG.md": true, "CONTRIBUTING.md": true, "SECURITY.md": true, "docs/SECURITY.md": true}

// spoken are the folders of Go whose texts reach users: the command line and the server.
var spoken = regexp.MustCompile(`^(?:cmd|coderd)/`)

// unspoken are tools of the tests, which speak to developers.
var unspoken = regexp.MustCompile(`^coderd/(?:chaos|simulation|faults|e2e)/`)

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	code   = regexp.MustCompile("`[^`\n]*`")
)

func wordsRule() Rule {
	return Rule{
		Name: "words",
		Why:  "it is read at night, and often not by native speakers: write the plain word",
		Check: func(t *Tree) ([]Finding, error) {
			var findings []Finding
			for _, f := range t.Files {
				switch {
				case path.Ext(f.Path) == ".md" && pages[path.Dir(f.Path)] && !notPages[f.Path]:
					findings = append(findings, unplain(f.Path, 1, blanked(f.Text))...)
				case f.Go != nil && !f.Test && !f.Generated && spoken.MatchString(f.Path) && !unspoken.MatchString(f.Path):
					findings = append(findings, unplainTexts(t.Fset, f)...)
				}
			}
			return findings, nil
		},
	}
}

// blanked is Markdown without its code, with the same lines.
func blanked(text []byte) string {
	blank := func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) }
	return code.ReplaceAllString(fenced.ReplaceAllStringFunc(string(text), blank), "`")
}

// unplainTexts looks at the strings of a Go file.
func unplainTexts(fset *token.FileSet, f *File) (findings []Finding) {
	ast.Inspect(f.Go, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !bytes.ContainsRune([]byte(literal.Value), ' ') {
			return true // a word by itself is a name
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			text = literal.Value
		}
		findings = append(findings, unplain(f.Path, fset.Position(literal.Pos()).Line, text)...)
		return true
	})
	return findings
}

func unplain(file string, line int, text string) (findings []Finding) {
	for _, p := range plain {
		for _, at := range p.words.FindAllStringIndex(text, -1) {
			found := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			findings = append(findings, Finding{
				file, line + strings.Count(text[:at[0]], "\n"), fmt.Sprintf("%q: write %s", found, p.instead),
			})
		}
	}
	return findings
}
