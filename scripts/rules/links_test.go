package rules_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/require"
)

var (
	// link is where a Markdown link leads within the repository: a path, or none for the page itself, and an anchor.
	link    = regexp.MustCompile(`\]\(([^)#\s:]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// madeAnchor is one in HTML, for a place that is no heading.
	madeAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// page is a Markdown file.
type page struct {
	links   [][2]string // path and anchor
	anchors []string
}

// read finds links and anchors, but not in blocks of code.
func readPage(content string) (p page) {
	fence := ""
	seen := map[string]int{}
	for line := range strings.Lines(content) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			if fence == "" {
				fence = "```"
			} else if trimmed == "```" {
				fence = ""
			}
			continue
		}
		if fence != "" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			p.links = append(p.links, [2]string{found[1], found[2]})
		}
		for _, found := range madeAnchor.FindAllStringSubmatch(line, -1) {
			p.anchors = append(p.anchors, found[1])
		}
		if found := heading.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			anchor := anchorOf(found[1])
			if n := seen[anchor]; n > 0 {
				p.anchors = append(p.anchors, fmt.Sprintf("%s-%d", anchor, n))
			} else {
				p.anchors = append(p.anchors, anchor)
			}
			seen[anchor]++
		}
	}
	return p
}

// anchorOf is what GitHub makes of a heading.
func anchorOf(heading string) string {
	heading = linked.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// pagesOf are all Markdown files of a tree.
func pagesOf(tree fs.FS) (map[string]page, error) {
	pages := map[string]page{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "build", "node_modules", "dist"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		pages[name] = readPage(string(content))
		return err
	})
	return pages, err
}

// brokenLinks are the links that lead to no file, or to no heading of one.
func brokenLinks(tree fs.FS, pages map[string]page) (broken []string) {
	for name, p := range pages {
		for _, l := range p.links {
			to := name
			if l[0] != "" {
				to = path.Join(path.Dir(name), l[0])
			}
			if _, err := fs.Stat(tree, to); err != nil {
				broken = append(broken, name+": "+l[0])
			} else if target, ok := pages[to]; ok && l[1] != "" && !slices.Contains(target.anchors, l[1]) {
				broken = append(broken, name+": "+l[0]+"#"+l[1])
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// lost are the pages of docs/ that nobody finds who begins at docs/README.md.
func lost(pages map[string]page) (names []string) {
	const begin = "docs/README.md"
	found, next := map[string]bool{begin: true}, []string{begin}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		for _, l := range pages[name].links {
			to := path.Join(path.Dir(name), l[0])
			if _, ok := pages[to]; ok && !found[to] {
				found[to] = true
				next = append(next, to)
			}
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !found[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestLinks(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(filepath.Join("..", ".."))
	pages, err := pagesOf(tree)
	require.NoError(t, err)
	require.Empty(t, brokenLinks(tree, pages))
	require.Empty(t, lost(pages), "no page leads to these")
	require.Greater(t, len(pages), 40, "the repository is not there")
}

func TestLinks_areCaught(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"docs/README.md": {Data: []byte("[a](a.md)")},
		"docs/a.md": {Data: []byte("# A [link](b.md) & `code_x`\n## Same\n## Same\n[x](b.md#there) [y](../README.md) " +
			"[z](https://example.com/c.md) [gone](c.md) [me](#same-1) [not](#same-2) [own](#a-link--code_x)\n```sh\n# [no](no.md)\n```\n")},
		"docs/b.md": {Data: []byte("```sh\n# there\n```\n<a id=\"here\"></a> [h](#here)\n")}, "docs/alone.md": {}, "README.md": {},
	}
	pages, err := pagesOf(tree)
	require.NoError(t, err)
	require.Equal(t, []string{"docs/a.md: #same-2", "docs/a.md: b.md#there", "docs/a.md: c.md"}, brokenLinks(tree, pages))
	require.Equal(t, []string{"docs/alone.md"}, lost(pages))
}
