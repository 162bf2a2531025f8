package rules

import (
	"bytes"
	_ "embed" // the list of words
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// listed has the words that readers stumble over, and what to write in their place. A phrase may go over the end of a line.
// The test of the pages in site/src reads the same file.
//
//go:embed words.json
var listed []byte

type plainWord struct {
	Words   string
	Instead string

	pattern *regexp.Regexp
}

var plain = sync.OnceValue(func() (all []plainWord) {
	if err := json.Unmarshal(listed, &all); err != nil {
		panic(err)
	}
	for i, p := range all {
		all[i].pattern = regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(p.Words, " ", `\s+`) + `\b`)
	}
	return all
})

// pages are the folders of Markdown that users read. Records of decisions, of measurements and of proofs are for developers.
var pages = map[string]bool{".": true, "docs": true, "docs/providers": true}

// notPages is the history: it says what was, in the words of its day.
var notPages = map[string]bool{"CHANGELOG.md": true}

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
				case isPage(f):
					findings = append(findings, unplain(f.Path, 1, blanked(f.Text))...)
				case speaks(f):
					findings = append(findings, unplainTexts(t.Fset, f)...)
				}
			}
			return findings, nil
		},
	}
}

func isPage(f *File) bool {
	return path.Ext(f.Path) == ".md" && pages[path.Dir(f.Path)] && !notPages[f.Path]
}

func speaks(f *File) bool {
	return f.Go != nil && !f.Test && !f.Generated && spoken.MatchString(f.Path) && !unspoken.MatchString(f.Path)
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
	for _, p := range plain() {
		for _, at := range p.pattern.FindAllStringIndex(text, -1) {
			found := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			findings = append(findings, Finding{
				file, line + strings.Count(text[:at[0]], "\n"), fmt.Sprintf("%q: write %s", found, p.Instead),
			})
		}
	}
	return findings
}
