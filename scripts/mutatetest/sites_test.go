package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const source = `package p

import "fmt"

const text = ` + "`" + `-- name: Take :many
-- What is due AND free.
UPDATE jobs SET state = 'running', due_at = now()
WHERE state = 'pending' AND due_at <= now() AND NOT EXISTS (SELECT FROM pauses p WHERE p.until IS NULL)` + "`" + `

func f(a, b int, ok bool) (bool, error) {
	if ok {
		return a < b && b > 3, fmt.Errorf("no")
	}
	return true, nil
}
`

func TestFind(t *testing.T) {
	sites, err := find("r", "p.go", []byte(source))
	require.NoError(t, err)
	var got []string
	for _, s := range sites {
		require.Equal(t, s.old, source[s.offset:s.offset+len(s.old)])
		got = append(got, s.old+" -> "+s.new)
	}
	require.Equal(t, []string{
		"= -> <>", "AND -> OR", "<= -> <", "AND -> OR", "NOT EXISTS -> EXISTS", "IS NULL -> IS NOT NULL",
		"ok -> !(ok)", "&& -> ||", "< -> <=", "> -> >=", "3 -> 4", "true -> false",
	}, got, "no comment, no assignment")
	require.Contains(t, string(sites[6].apply([]byte(source))), "if !(ok) {")
	require.Equal(t, "p.go:8+169 <= -> <", sites[2].id())
}

// What nobody could notice is drawn, and left out.
func TestFind_moot(t *testing.T) {
	const source = `package p

func f(a, b int) (int, bool, error) {
	if err := g(a + 1); err != nil && a > 2 {
		s.Log.Warn(ctx, "no", a-3)
	}
	if a > 4 {
		log.Warn(ctx, "no")
		h()
	}
	if err != nil {
		return 6, true, err
	}
	if a == 7 {
		return 8, true, ErrNo
	}
	return 9, false, err
}
`
	of := func(file string) (kept []string) {
		sites, err := find("r", file, []byte(source))
		require.NoError(t, err)
		for _, s := range sites {
			if !s.moot {
				kept = append(kept, s.old+" -> "+s.new)
			}
		}
		return kept
	}
	require.Equal(t, []string{"+ -> -", "1 -> 2", "> -> >=", "4 -> 5", "!= -> ==", "== -> !=", "7 -> 8", "9 -> 10", "false -> true"}, of("p.go"),
		"what is returned with an err that may be nil is read")
	require.Empty(t, of("p.sql.go"), "what sqlc writes")
}

func TestSample(t *testing.T) {
	all, err := sample("../..", rooms, 1, 1<<30)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, s := range all {
		require.False(t, seen[s.id()], s.id())
		seen[s.id()] = true
	}
	for _, r := range rooms {
		some, err := sample("../..", []room{r}, 1, 20)
		require.NoError(t, err)
		require.Len(t, some, 20, r.name)
		for _, folder := range append(r.code, r.tests...) {
			require.DirExists(t, filepath.Join("../..", folder))
		}
	}
	some, err := sample("../..", rooms, 1, 20)
	require.NoError(t, err)
	require.Equal(t, all[:20], some, "the same seed draws the same ones")
	other, err := sample("../..", rooms, 2, 20)
	require.NoError(t, err)
	require.NotEqual(t, some, other)
}

// A file with changes in it is one that compiles, and as it was where none is chosen.
func TestBothWays(t *testing.T) {
	sites, err := find("r", "p.go", []byte(source))
	require.NoError(t, err)
	b := newBoth(t.TempDir(), sites)
	require.Len(t, b.sites, 10, "of conditions within one another only one; no numbers")
	require.Equal(t, `
func f(a, b int, ok bool) (bool, error) {
	if mutantOf(func() bool { return ok }, map[string]func() bool{"p.go:11+286 ok -> !(ok)": func() bool { return !(ok) }, })() {
		return mutantOf(func() bool { return a < b }, map[string]func() bool{"p.go:12+302 < -> <=": func() bool { return a <= b }, })() && mutantOf(func() bool { return b > 3 }, map[string]func() bool{"p.go:12+311 > -> >=": func() bool { return b >= 3 }, })(), fmt.Errorf("no")
	}
	return mutantOf(func() bool { return true }, map[string]func() bool{"p.go:14+344 true -> false": func() bool { return false }, })(), nil
}
`, after(t, string(bothWays([]byte(source), b.sites)), "IS NOT NULL)`, })\n"))
	require.Contains(t, string(bothWays([]byte(source), b.sites)), "var text = mutantOf(`-- name: Take :many")
}

func after(t *testing.T, text, mark string) string {
	_, rest, ok := strings.Cut(text, mark)
	require.True(t, ok, text)
	return rest
}

// What was tried is not tried again.
func TestOutcomes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "build", "mutants.tsv")
	done, err := outcomes(path)
	require.NoError(t, err)
	require.Empty(t, done)
	sites, err := sample("../..", rooms, 1, 2)
	require.NoError(t, err)
	require.NoError(t, record(path, sites[0], "killed"))
	require.NoError(t, record(path, sites[1], "survived"))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("survi") // a run that was killed
	require.NoError(t, err)
	require.NoError(t, f.Close())
	done, err = outcomes(path)
	require.NoError(t, err)
	require.Equal(t, map[string]string{sites[0].id(): "killed", sites[1].id(): "survived"}, done)
}

// A change is noticed, or not, by real tests: those of a module made for this.
func TestTry(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"p.go": "package p\n\nfunc less(a, b int) bool { return a < b }\n\nfunc sum(a, b string) string { return a + b }\n\n" +
			"func never(a int) bool { return a > 0 || a < -1 }\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif !less(1, 2) || less(3, 2) {\n\t\tt.Fatal()\n\t}\n" +
			"\tif sum(\"a\", \"b\") != \"ab\" {\n\t\tt.Fatal()\n\t}\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	before := rooms
	rooms = []room{{"r", []string{"."}, []string{"."}, nil}}
	t.Cleanup(func() { rooms = before })
	source, err := os.ReadFile(filepath.Join(root, "p.go"))
	require.NoError(t, err)
	sites, err := find("r", "p.go", source)
	require.NoError(t, err)
	require.Len(t, sites, 7)
	swapped := sites[0]
	swapped.new = ">"
	for _, build := range []*both{nil, newBoth(t.TempDir(), append(sites, swapped))} {
		tester := tester{root: root, env: append(os.Environ(), "GOFLAGS=-mod=mod"), known: map[string]knowledge{}, both: build}
		for _, tc := range []struct {
			site site
			want string
		}{{sites[0], "survived"}, {swapped, "killed"}, {sites[1], "no build"}, {sites[2], "not reached"}} {
			got, err := tester.try(t.Context(), tc.site)
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.site.id())
		}
		if build != nil {
			require.Len(t, build.programs, 1, "one build for all")
			require.NotEmpty(t, build.programs["."])
		}
	}
	left, err := os.ReadFile(filepath.Join(root, "p.go"))
	require.NoError(t, err)
	require.Equal(t, source, left, "the tree is as it was")
}
