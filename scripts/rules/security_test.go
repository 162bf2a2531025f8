package rules_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedTest is how a page names a test, with its package where several have one of that name; declaredTest how a file declares one.
var (
	namedTest    = regexp.MustCompile("`(?:([a-z0-9]+)\\.)?((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// wrongTests says what is wrong with the tests that a page names, where declared are the packages that have each.
func wrongTests(page string, declared map[string][]string) (wrong []string, named int) {
	for _, found := range namedTest.FindAllStringSubmatch(page, -1) {
		named++
		of, name := found[1], found[2]
		switch packages := declared[name]; {
		case len(packages) == 0:
			wrong = append(wrong, name+": no file declares it")
		case of == "" && len(packages) > 1:
			wrong = append(wrong, fmt.Sprintf("%s: write which one: it is in %s", name, strings.Join(packages, ", ")))
		case of != "" && !slices.Contains(packages, of):
			wrong = append(wrong, fmt.Sprintf("%s.%s: it is in %s", of, name, strings.Join(packages, ", ")))
		}
	}
	return wrong, named
}

// declaredTests are the packages, by the names of their directories, that declare each test of the repository.
func declaredTests(tree fs.FS) (map[string][]string, error) {
	declared := map[string][]string{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "build", "node_modules", "dist"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, found := range declaredTest.FindAllStringSubmatch(string(content), -1) {
			declared[found[1]] = append(declared[found[1]], filepath.Base(filepath.Dir(name)))
		}
		return nil
	})
	return declared, err
}

// TestSecurityPage: each line of the threat model names tests that there are, and the matrix has as many cells as it says.
func TestSecurityPage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	content, err := os.ReadFile(filepath.Join(root, "docs", "SECURITY.md"))
	require.NoError(t, err)
	page := string(content)
	declared, err := declaredTests(os.DirFS(root))
	require.NoError(t, err)
	wrong, named := wrongTests(page, declared)
	require.Empty(t, wrong)
	require.Greater(t, named, 90, "each line names what holds it")

	matrix, err := os.ReadFile(filepath.Join(root, "coderd", "api", "testdata", "matrix.txt"))
	require.NoError(t, err)
	operations := strings.Split(strings.TrimSpace(string(matrix)), "\n")[1:]
	cells := 0
	for _, line := range operations {
		cells += len(strings.Fields(line)) - 1
	}
	require.Contains(t, page, fmt.Sprintf("%d operations", len(operations)))
	require.Contains(t, page, fmt.Sprintf("%d cells", cells))
}

// TestRulesPage: each test that the page of the rules names is there.
func TestRulesPage(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reliability", "rules.md"))
	require.NoError(t, err)
	declared, err := declaredTests(os.DirFS(root))
	require.NoError(t, err)
	wrong, named := wrongTests(string(page), declared)
	require.Empty(t, wrong)
	require.Greater(t, named, 40, "each rule names what holds it")
}

func TestSecurityPage_wrongTestsAreCaught(t *testing.T) {
	t.Parallel()
	wrong, named := wrongTests("`TestA` `TestGone` `TestBoth` `two.TestBoth` `three.TestA` `FuzzA`, a `Testament` and TestNone", map[string][]string{
		"TestA": {"one"}, "TestBoth": {"one", "two"}, "FuzzA": {"one"}, "Testament": {"one"},
	})
	require.Equal(t, 7, named)
	require.Equal(t, []string{
		"TestGone: no file declares it", "TestBoth: write which one: it is in one, two", "three.TestA: it is in one",
	}, wrong)
}
