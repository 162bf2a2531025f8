package rules_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// link is where a Markdown link leads within the repository: a path, and what follows it.
var link = regexp.MustCompile(`\]\(([^)#\s:]+)(#[^)\s]*)?\)`)

// brokenLinks are the links of all Markdown files that lead to no file.
func brokenLinks(tree fs.FS) (broken []string, files int, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "build", "node_modules", "dist"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		files++
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(string(content), -1) {
			if _, err := fs.Stat(tree, path.Join(path.Dir(name), found[1])); err != nil {
				broken = append(broken, name+": "+found[1])
			}
		}
		return nil
	})
	return broken, files, err
}

func TestLinks(t *testing.T) {
	t.Parallel()
	broken, files, err := brokenLinks(os.DirFS(filepath.Join("..", "..")))
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Greater(t, files, 40, "the repository is not there")
}

func TestLinks_areCaught(t *testing.T) {
	t.Parallel()
	broken, _, err := brokenLinks(fstest.MapFS{
		"docs/a.md": {Data: []byte("[x](b.md#there) [y](../README.md) [z](https://example.com/c.md) [gone](c.md)")},
		"docs/b.md": {}, "README.md": {},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"docs/a.md: c.md"}, broken)
}
