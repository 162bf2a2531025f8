package rules_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// mutant is a patch of scripts/mutants/rules: it takes a rule out of the code, and names the test that fails then.
type mutant struct {
	rule, what, packageDir, run, expect string
	file                                string
	old, broken                         string // the lines of its hunk before and after
}

// TestMutantsOfRules: there is one for each of the rules C1 to C16; each fits the code as it is, names a test that exists,
// and is a row of docs/reliability/rules.md. That the test fails then is shown by `make rules-mutants`.
func TestMutantsOfRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/reliability/rules.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, "scripts/mutants/rules/*.patch"))
	require.NoError(t, err)
	var rules []int
	for _, file := range files {
		m := readMutant(t, file)
		number, err := strconv.Atoi(strings.TrimPrefix(m.rule, "C"))
		require.NoError(t, err, file)
		rules = append(rules, number)
		require.Equal(t, m.rule+".patch", filepath.Base(file))

		source, err := os.ReadFile(filepath.Join(root, m.file))
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(source, []byte(m.old)),
			"%s no longer fits %s: bring it up to date, and run make rules-mutants", file, m.file)
		require.NotEqual(t, m.old, m.broken)

		name := regexp.MustCompile(`^\^?([A-Za-z0-9_]+)`).FindStringSubmatch(m.run)
		require.NotNil(t, name, m.run)
		require.True(t, testExists(t, filepath.Join(root, m.packageDir), name[1]), "%s has no test %s", m.packageDir, name[1])
		require.NotEmpty(t, m.expect)

		row := "| " + m.rule + " | " + m.what + " | `" + strings.TrimPrefix(m.packageDir, "./") + "` `" + m.run + "` |"
		require.Contains(t, string(page), row, "docs/reliability/rules.md has another row for %s", m.rule)
	}
	slices.Sort(rules)
	var all []int
	for n := 1; n <= 16; n++ {
		all = append(all, n)
	}
	require.Equal(t, all, rules)
}

// TestMutants_apply: every planted mutation, in whichever folder, still applies to the tree as it is. Code that is changed
// takes its mutants along: edit it as the patch means, and put the new difference below the patch's header.
func TestMutants_apply(t *testing.T) {
	t.Parallel()
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	var patches []string
	for _, pattern := range []string{"scripts/mutants/*.patch", "scripts/mutants/*/*.patch"} {
		found, err := filepath.Glob(filepath.Join(abs, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		patches = append(patches, found...)
	}
	for _, patch := range patches {
		// The program and its options are those of scripts/mutants.sh and scripts/sim-mutants.sh.
		cmd := exec.CommandContext(t.Context(), "patch", "--dry-run", "--force", "-p1", "-d", abs, "-i", patch)
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s does not apply any more: %s", strings.TrimPrefix(patch, abs+"/"), out)
	}
}

func readMutant(t *testing.T, file string) mutant {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	head, patch, found := strings.Cut(string(b), "\n--- a/")
	require.True(t, found, file)
	what, _, _ := strings.Cut(head, "\n")
	m := mutant{what: what}
	for field, into := range map[string]*string{
		"Invariant": &m.rule, "Package": &m.packageDir, "Run": &m.run, "Expect": &m.expect,
	} {
		line := regexp.MustCompile(`(?m)^` + field + `: (.+)$`).FindStringSubmatch(head)
		require.NotNil(t, line, "%s has no %s", file, field)
		*into = line[1]
	}
	m.file, patch, _ = strings.Cut(patch, "\n")
	require.Equal(t, 1, strings.Count(patch, "\n@@ "), "%s: one hunk, please", file)
	_, hunk, _ := strings.Cut(patch[strings.Index(patch, "\n@@ ")+1:], "\n")
	for line := range strings.Lines(hunk) {
		text := line[1:]
		switch line[0] {
		case '-':
			m.old += text
		case '+':
			m.broken += text
		default:
			m.old += text
			m.broken += text
		}
	}
	return m
}

// testExists looks for a test of that name, or one that begins so.
func testExists(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		if bytes.Contains(b, []byte("\nfunc "+name)) {
			return true
		}
	}
	return false
}
