package rules

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
)

// maxLines is how long a file may be that people write. The median is to be near 150.
const maxLines = 500

// openEnd is a mark in a comment or a text, and not context.TODO, which is for the rule background. The brackets are
// for this very file.
var openEnd = regexp.MustCompile(`(?:^|[^."\w])(TO[D]O|FIX[M]E|X[X]X)\b`)

func openEndRule() Rule {
	return Rule{
		Name:  "open ends",
		Why:   "do it, or open an issue: nobody reads a mark in the code again",
		Check: func(t *Tree) ([]Finding, error) { return t.grep(everywhere(openEnd)), nil },
	}
}

// pathRule finds what is in somebody's home, or in this very copy of the repository.
func pathRule() Rule {
	return Rule{
		Name: "paths",
		Why:  "it does not exist on other machines; an example takes $HOME or ~",
		Check: func(t *Tree) ([]Finding, error) {
			const begin, home = "(?:^|[\\s\"'=:(`])", `/roo[t]/|/(?:home|Users)/[a-z]\w*/`
			return t.grep(everywhere(regexp.MustCompile(begin + "(" + home + "|" + regexp.QuoteMeta(t.Root) + `\b)`))), nil
		},
	}
}

// grep returns the lines that match the pattern of their file, by what its group holds; nil: none does. Generated files are as
// good or bad as what they are made of.
func (t *Tree) grep(patternOf func(*File) *regexp.Regexp) []Finding {
	var findings []Finding
	for _, f := range t.Files {
		pattern := patternOf(f)
		if pattern == nil || f.Generated {
			continue
		}
		number := 0
		for line := range bytes.Lines(f.Text) {
			number++
			if found := pattern.FindSubmatch(line); found != nil {
				findings = append(findings, Finding{f.Path, number, string(found[1])})
			}
		}
	}
	return findings
}

func everywhere(pattern *regexp.Regexp) func(*File) *regexp.Regexp {
	return func(*File) *regexp.Regexp { return pattern }
}

// written are the endings of files whose length somebody decides.
var written = map[string]bool{".go": true, ".sql": true, ".sh": true, ".ts": true, ".tsx": true, ".css": true}

func lengthRule() Rule {
	return Rule{
		Name: "length",
		Why:  "look for the second thing that the file does, and give it a file of its own",
		Check: func(t *Tree) ([]Finding, error) {
			var findings []Finding
			for _, f := range t.Files {
				if n := bytes.Count(f.Text, []byte("\n")); n > maxLines && written[path.Ext(f.Path)] && !f.Generated {
					findings = append(findings, Finding{f.Path, n, fmt.Sprintf("%d lines, more than %d", n, maxLines)})
				}
			}
			return findings, nil
		},
	}
}
