package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/xerrors"
)

// changeEnv names the change that a program with many of them makes.
const changeEnv = "PREWARM_MUTANT"

// both is one build of each package's tests for many changes: its conditions and statements are there both ways, and changeEnv says
// which is meant. So most changes cost the time of tests only. What has no place in it, such as a constant, is built on its own.
type both struct {
	dir   string
	sites []site // whose places do not overlap

	mu       sync.Mutex
	overlay  string
	programs map[string]string // by package; empty: it could not be built
}

func newBoth(dir string, sites []site) *both {
	sorted := slices.DeleteFunc(slices.Clone(sites), func(s site) bool { return s.within == [2]int{} })
	slices.SortFunc(sorted, func(a, b site) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.within[0], b.within[0]), cmp.Compare(a.within[1], b.within[1]))
	})
	b := &both{dir: dir, programs: map[string]string{}}
	for _, s := range sorted {
		if n := len(b.sites); n > 0 && b.sites[n-1].file == s.file && s.within != b.sites[n-1].within && s.within[0] < b.sites[n-1].within[1] {
			continue
		}
		b.sites = append(b.sites, s)
	}
	return b
}

// program is the build of a package's tests that has a change; empty: there is none.
func (b *both) program(ctx context.Context, t *tester, s site, pkg string) (string, error) {
	if b == nil || !slices.Contains(b.sites, s) {
		return "", nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if path, ok := b.programs[pkg]; ok {
		return path, nil
	}
	if b.overlay == "" {
		if err := b.write(t.root); err != nil {
			return "", err
		}
	}
	path := filepath.Join(b.dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
	built, err := t.build(ctx, b.overlay, path, pkg)
	if err != nil {
		return "", err
	}
	if !built {
		fmt.Fprintf(os.Stderr, "mutatetest: %s does not build with all changes in it, so that each has a build of its own\n", pkg)
		path = ""
	}
	b.programs[pkg] = path
	return path, nil
}

// write writes the changed files, and the overlay that puts them in their places.
func (b *both) write(root string) error {
	byFile := map[string][]site{}
	for _, s := range b.sites {
		byFile[s.file] = append(byFile[s.file], s)
	}
	replace := map[string]string{}
	put := func(place string, content []byte) error {
		path := filepath.Join(b.dir, strconv.Itoa(len(replace))+".go")
		replace[filepath.Join(root, place)] = path
		return os.WriteFile(path, content, 0o600)
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return xerrors.Errorf("change %s: %w", file, err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.PackageClauseOnly)
		if err != nil {
			return xerrors.Errorf("parse %s: %w", file, err)
		}
		if err := put(file, bothWays(source, byFile[file])); err != nil {
			return xerrors.Errorf("change %s: %w", file, err)
		}
		chooser := filepath.Join(filepath.Dir(file), "mutant_chosen.go")
		if _, ok := replace[filepath.Join(root, chooser)]; !ok {
			if err := put(chooser, []byte("package "+parsed.Name.Name+chosen)); err != nil {
				return xerrors.Errorf("change %s: %w", file, err)
			}
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return xerrors.Errorf("write overlay: %w", err)
	}
	b.overlay = filepath.Join(b.dir, "overlay.json")
	return os.WriteFile(b.overlay, content, 0o600)
}

// chosen is what a package with changes has besides.
const chosen = `

import "os"

var mutantNow = os.Getenv("` + changeEnv + `")

func mutantOf[T any](as T, changes map[string]T) T {
	if to, ok := changes[mutantNow]; ok {
		return to
	}
	return as
}
`

// bothWays is a file with changes in it, of which mutantNow names one or none. The changes are sorted by their places.
func bothWays(source []byte, sites []site) []byte {
	var out strings.Builder
	at := 0
	for i := 0; i < len(sites); {
		from, to := sites[i].within[0], sites[i].within[1]
		before, as := string(source[at:from]), string(source[from:to])
		// A condition is a function, so that only the one that is chosen is asked.
		kind, call := "func() bool", "()"
		value := func(text string) string { return "func() bool { return " + text + " }" }
		if as[0] == '`' { // a statement, whose `const name = ` may not call anything
			kind, call = "string", ""
			value = func(text string) string { return text }
			begin := strings.LastIndex(before, "const ")
			before = before[:begin] + "var " + before[begin+len("const "):]
		}
		out.WriteString(before)
		fmt.Fprintf(&out, "mutantOf(%s, map[string]%s{", value(as), kind)
		for ; i < len(sites) && sites[i].within == [2]int{from, to}; i++ {
			s := sites[i]
			begin := s.offset - from
			fmt.Fprintf(&out, "%q: %s, ", s.id(), value(as[:begin]+s.new+as[begin+len(s.old):]))
		}
		out.WriteString("})" + call)
		at = to
	}
	return []byte(out.String() + string(source[at:]))
}
