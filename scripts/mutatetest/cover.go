package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/xerrors"
)

// judge is a test of a room, and what it runs of the room's code.
type judge struct {
	Package string
	Name    string
	Took    time.Duration
	Runs    map[string][]span // by file, as the profile names it
}

// span are lines of a file, the first and the last.
type span [2]int

// judges runs each test of a room on its own, as the room is, and says what it runs of the room. Each must pass.
func (t *tester) judges(ctx context.Context, of room) (all []judge, known map[string][]span, err error) {
	dir, err := os.MkdirTemp("", "prewarm-mutate-")
	if err != nil {
		return nil, nil, xerrors.Errorf("judge %s: %w", of.name, err)
	}
	defer os.RemoveAll(dir)
	var folders []string
	for _, folder := range of.code {
		folders = append(folders, "./"+folder)
	}
	known = map[string][]span{}
	for _, pkg := range of.tests {
		program, profile := filepath.Join(dir, "room.test"), filepath.Join(dir, "profile")
		cmd := t.command(ctx, "go", "test", "-c", "-vet=off", "-coverpkg="+strings.Join(folders, ","), "-o", program, pkg)
		if output, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, xerrors.Errorf("build the tests of %s: %w\n%s", pkg, err, output)
		}
		run := func(args ...string) (string, error) {
			cmd := t.command(ctx, program, args...)
			cmd.Dir = filepath.Join(t.root, pkg)
			output, err := cmd.CombinedOutput()
			return string(output), err
		}
		names, err := run("-test.list", "^(Test|Fuzz|Example)")
		if err != nil {
			return nil, nil, xerrors.Errorf("list the tests of %s: %w\n%s", pkg, err, names)
		}
		for name := range strings.Lines(names) {
			begun := time.Now()
			name = strings.TrimSpace(name)
			if output, err := run("-test.run", exactly(name), "-test.timeout", limit.String(), "-test.coverprofile", profile); err != nil {
				return nil, nil, xerrors.Errorf("%s of %s fails without any change: %w\n%s", name, pkg, err, output)
			}
			j := judge{Package: pkg, Name: name, Took: time.Since(begun), Runs: map[string][]span{}}
			if err := readProfile(profile, j.Runs, known); err != nil {
				return nil, nil, err
			}
			all = append(all, j)
		}
	}
	return all, known, nil
}

// exactly is the expression of `go test -run` for some tests.
func exactly(names ...string) string { return "^(" + strings.Join(names, "|") + ")$" }

var profileLine = regexp.MustCompile(`^(\S+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

// readProfile adds what ran, and what could have run, from a profile of `go test`.
func readProfile(path string, ran, known map[string][]span) error {
	f, err := os.Open(path)
	if err != nil {
		return xerrors.Errorf("read profile: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := profileLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		var lines span
		if _, err := fmt.Sscan(m[2]+" "+m[3], &lines[0], &lines[1]); err != nil {
			return xerrors.Errorf("read profile: %w", err)
		}
		known[m[1]] = append(known[m[1]], lines)
		if m[4] != "0" {
			ran[m[1]] = append(ran[m[1]], lines)
		}
	}
	return nil
}

// has says whether some spans have a line of a file.
func has(spans map[string][]span, file string, line int) bool {
	for name, of := range spans {
		if strings.HasSuffix(name, "/"+file) {
			for _, s := range of {
				if s[0] <= line && line <= s[1] {
					return true
				}
			}
		}
	}
	return false
}

// knowledge is what was found out about the tests of a room, for the next run on the same tree.
type knowledge struct {
	Judges []judge
	Known  map[string][]span
}

// of are the tests that run the line of a change, by package, and how long they take as things are. What is no statement, such
// as a constant, all of them may depend on.
func (k knowledge) of(s site) (tests map[string][]judge, took time.Duration) {
	tests = map[string][]judge{}
	everywhere := !has(k.Known, s.file, s.runs)
	for _, j := range k.Judges {
		if everywhere || has(j.Runs, s.file, s.runs) {
			tests[j.Package] = append(tests[j.Package], j)
			took += j.Took
		}
	}
	return tests, took
}

// know is the knowledge about a room: what a run before left for the same commit, or found out now.
func (t *tester) know(ctx context.Context, of room) (knowledge, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.known[of.name]; ok {
		return k, nil
	}
	var k knowledge
	path := ""
	if t.kept != "" {
		path = filepath.Join(t.kept, of.name+".json")
		if content, err := os.ReadFile(path); err == nil && json.Unmarshal(content, &k) == nil {
			t.known[of.name] = k
			return k, nil
		}
	}
	var err error
	if k.Judges, k.Known, err = t.judges(ctx, of); err != nil {
		return knowledge{}, err
	}
	t.known[of.name] = k
	if path != "" {
		content, err := json.Marshal(k)
		if err != nil {
			return knowledge{}, xerrors.Errorf("keep what is known of %s: %w", of.name, err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return knowledge{}, xerrors.Errorf("keep what is known of %s: %w", of.name, err)
		}
	}
	return k, nil
}

// command is one of the run's, which is interrupted when the run is.
func (t *tester) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = t.root, t.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}
