package rules

import (
	"regexp"
	"strings"
)

// block is one paragraph, heading, list item or table cell.
type block struct {
	line int // in its file, of its first line
	text string
}

var (
	fence    = regexp.MustCompile("^\\s*```")
	listItem = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	span     = regexp.MustCompile("`[^`]*`")
	cellEnd  = regexp.MustCompile(`\\\||\|`)
	mdLink   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)\s]*\)`)
	remark   = regexp.MustCompile(`(?s)<!--.*?-->`)
	quoteBar = regexp.MustCompile(`^\s*> ?`)
)

// blocks splits Markdown, as this repository writes it, into its blocks of prose. Blocks of code are left out. A code span
// becomes one word, and a link its text; each block keeps its lines.
func blocks(markdown string) (all []block) {
	var open *block
	fenced := false
	markdown = remark.ReplaceAllStringFunc(markdown, onlyLines)
	number := 0
	for line := range strings.Lines(markdown) {
		number++
		line = quoteBar.ReplaceAllString(strings.TrimRight(line, "\n"), "")
		trimmed := strings.TrimSpace(line)
		item := listItem.FindString(line)
		switch {
		case fence.MatchString(line):
			fenced, open = !fenced, nil
		case fenced, trimmed == "":
			open = nil
		case strings.HasPrefix(trimmed, "|"):
			open = nil
			for _, cell := range cells(trimmed) {
				all = append(all, block{number, cell})
			}
		case strings.HasPrefix(trimmed, "#"):
			open = nil
			all = append(all, block{number, strings.TrimLeft(trimmed, "#")})
		case item != "" || open == nil:
			all = append(all, block{number, line[len(item):]})
			open = &all[len(all)-1]
		default:
			open.text += "\n" + line
		}
	}
	for i, b := range all {
		all[i].text = mdLink.ReplaceAllString(span.ReplaceAllStringFunc(b.text, func(code string) string {
			return "`x`" + onlyLines(code)
		}), "$1")
	}
	return all
}

// cells are those of a row of a table. A bar in a code span is part of it if it is escaped, as GitHub has it.
func cells(row string) (all []string) {
	from := 0
	for _, at := range cellEnd.FindAllStringIndex(row, -1) {
		if at[1]-at[0] == 1 {
			all = append(all, row[from:at[0]])
			from = at[1]
		}
	}
	return append(all, row[from:])
}

func onlyLines(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }
