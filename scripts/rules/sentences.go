package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// maxWords is how many a sentence may have.
const maxWords = 25

// sentence is one, with the line of the file where it begins.
type sentence struct {
	line, words int
	begin       string // its first words
}

var (
	aWord = regexp.MustCompile(`\S+`)
	stop  = regexp.MustCompile(`[.?!…]["'”’)\]*_]*$`)
	short = regexp.MustCompile(`(?i)^\W*(?:e\.g|i\.e|etc|vs|cf|approx|incl)\.\W*$`)
)

// sentences splits a block of prose. A sentence ends with a full stop, a question mark or an exclamation mark where the
// next word does not begin with a small letter, and at the end of its block. A colon and a semicolon end nothing.
// A word is what stands between white space and has a letter or a digit. site/src/words.test.ts counts in the same way:
// testdata/sentences.json has the cases of both.
func sentences(b block) (all []sentence) {
	at := aWord.FindAllStringIndex(b.text, -1)
	from, words := 0, 0
	for i, now := range at {
		word := b.text[now[0]:now[1]]
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			words++
		}
		last := i == len(at)-1
		if !last && (!stop.MatchString(word) || short.MatchString(word) || small(b.text[at[i+1][0]:at[i+1][1]])) {
			continue
		}
		begin := b.text[at[from][0]:at[min(from+5, i)][1]]
		all = append(all, sentence{
			b.line + strings.Count(b.text[:at[from][0]], "\n"), words, strings.Join(strings.Fields(begin), " "),
		})
		from, words = i+1, 0
	}
	return all
}

func small(word string) bool {
	word = strings.TrimLeft(word, `"'“‘([*_`)
	return word != "" && unicode.IsLower([]rune(word)[0])
}

func sentencesRule() Rule {
	return Rule{
		Name: "sentences",
		Why: "split it, one idea each. A sentence has at most 25 words: it ends with . ? or ! before a word that is not in " +
			"small letters, and with its paragraph, list item or table cell. A colon or a semicolon ends nothing. A code span " +
			"is one word, as is what stands in for a value",
		Check: func(t *Tree) ([]Finding, error) {
			var findings []Finding
			for _, f := range t.Files {
				var all []block
				switch {
				case isPage(f):
					all = blocks(string(f.Text))
				case speaks(f):
					all = goBlocks(t.Fset, f)
				}
				for _, b := range all {
					for _, s := range sentences(b) {
						if s.words > maxWords {
							findings = append(findings, Finding{f.Path, s.line, fmt.Sprintf("%d words: %s …", s.words, s.begin)})
						}
					}
				}
			}
			return findings, nil
		},
	}
}

// goBlocks are the texts of a Go file by paragraph. Texts that are added up are one, with a word for what is no literal.
// Indented lines of a longer text are code, and so is a script. Of a struct tag, only the description is a text.
func goBlocks(fset *token.FileSet, f *File) (all []block) {
	add := func(at ast.Node, text string) {
		if strings.Contains(text, " && ") {
			return // a script
		}
		line := fset.Position(at.Pos()).Line
		open := false
		for i, content := range strings.Split(text, "\n") {
			switch {
			case strings.TrimSpace(content) == "", strings.HasPrefix(content, " "), strings.HasPrefix(content, "\t"):
				open = false
			case open:
				all[len(all)-1].text += "\n" + content
			default:
				all, open = append(all, block{line + i, content}), true
			}
		}
	}
	done := make(map[ast.Node]bool)
	ast.Inspect(f.Go, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				tag, _ := literal(n.Tag)
				add(n.Tag, reflect.StructTag(tag).Get("doc"))
				done[n.Tag] = true
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			if done[n] {
				break
			}
			if text, ok := added(n.(ast.Expr), done); ok {
				add(n, text)
			}
		}
		return true
	})
	return all
}

// added is the text that an expression of literals and values adds up to, if there is a literal in it. It marks what it has
// read.
func added(e ast.Expr, done map[ast.Node]bool) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			done[e] = true
			left, one := added(e.X, done)
			right, other := added(e.Y, done)
			return left + right, one || other
		}
	case *ast.BasicLit:
		done[e] = true
		return literal(e)
	}
	return "X", false
}

func literal(l *ast.BasicLit) (text string, ok bool) {
	text, err := strconv.Unquote(l.Value)
	return text, err == nil && l.Kind == token.STRING
}
