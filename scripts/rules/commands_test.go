package rules_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// applied is `prewarm apply` with what it is given, up to the end of the command, on one line, as people copy it. The
// name alone, as in a sentence, is given nothing.
var applied = regexp.MustCompile("\\bprewarm apply((?:[ \t]+[^\\s`\"#|;&()]+)+)")

// wrongApplies are the lines of a text where apply is given what it does not take: a word in the place of a flag, a
// flag that it does not have, or neither file nor plan. The flags are whether each takes a value.
func wrongApplies(text string, flags map[string]bool) (wrong []string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		for _, found := range applied.FindAllStringSubmatch(line, -1) {
			words, ok, what := strings.Fields(found[1]), false, ""
			for i := 0; i < len(words); i++ {
				name, _, has := strings.Cut(words[i], "=")
				value, known := flags[name]
				switch {
				case !strings.HasPrefix(name, "-"):
					what = "takes no argument"
				case !known:
					what = "has no flag " + name
				case name == "-f" || name == "--file" || name == "--plan":
					ok = true
				}
				if value && !has {
					i++
				}
			}
			if what == "" && !ok {
				what = "needs -f or --plan"
			}
			if what != "" {
				wrong = append(wrong, fmt.Sprintf("%d: %s: apply %s", n, strings.TrimSpace(found[0]), what))
			}
		}
	}
	return wrong
}

var flagLine = regexp.MustCompile(`(?m)^ +(?:(-\w), )?(--[\w-]+)( [a-z]+)?  `)

// flagsOf are those that docs/cli.md, which is made from the commands, has below a heading.
func flagsOf(t *testing.T, heading string) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/cli.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	flags := map[string]bool{}
	for _, m := range flagLine.FindAllStringSubmatch(section, -1) {
		flags[m[1]], flags[m[2]] = m[3] != "", m[3] != ""
	}
	delete(flags, "")
	require.NotEmpty(t, flags)
	return flags
}

// Whoever copies an apply out of an example or a page has one that runs. docs/cli.md, which tells what runs, is made
// from the commands.
func TestAppliesAsWritten(t *testing.T) {
	t.Parallel()
	flags := flagsOf(t, "prewarm")
	maps.Copy(flags, flagsOf(t, "prewarm apply"))
	seen := 0
	look := func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".png" || entry.Name() == "cli.md" {
			return err
		}
		text, err := os.ReadFile(name)
		seen += len(applied.FindAll(text, -1))
		assert.Empty(t, wrongApplies(string(text), flags), name)
		return err
	}
	for _, name := range []string{"examples", "docs", "README.md"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, name), look))
	}
	require.Greater(t, seen, 5, "the pages are not there")

	for line, wrong := range map[string]int{
		"prewarm apply examples/hosts.yaml": 1, "# prewarm apply --dry-run # of what?": 1, "bin/prewarm apply --plans 1": 1,
		"`prewarm apply -f a.yaml b.yaml`": 1, "prewarm apply -x -f a.yaml": 1,
		"prewarm apply -f a.yaml --dry-run   # what would change": 0, "`prewarm apply`, and what follows": 0,
		"make | prewarm apply -f - && echo": 0, "(prewarm apply --plan=ID)": 0, "prewarm apply -o json --file a.yaml": 0,
	} {
		assert.Len(t, wrongApplies(line, flags), wrong, line)
	}
}
