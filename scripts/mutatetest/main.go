package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// limit is how long the tests of a room may take.
const limit = 10 * time.Minute

func main() {
	seed := flag.Uint64("seed", 1, "which sample to draw")
	n := flag.Int("n", 400, "how many changes to try")
	only := flag.String("rooms", "", "rooms, separated by commas; empty: all")
	out := flag.String("o", "build/mutants.tsv", "file of the outcomes; what has a line there is not tried again")
	again := flag.Bool("again", false, "try once more what has survived or hung: after tests were added, which must be all that has changed")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many changes to try at a time")
	worlds := flag.Bool("worlds", true, "ask the simulation and the replay of jobs about what a room's tests let pass; without, it is quicker and stricter")
	list := flag.Bool("list", false, "list the sample, and try nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *seed, *n, *jobs, *only, *out, *list, *again, *worlds); err != nil {
		fmt.Fprintln(os.Stderr, "mutatetest:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, seed uint64, n, jobs int, only, out string, list, again, worlds bool) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	of := slices.DeleteFunc(slices.Clone(rooms), func(r room) bool {
		return only != "" && !slices.Contains(strings.Split(only, ","), r.name)
	})
	if len(of) == 0 {
		return xerrors.Errorf("there is no room %s", only)
	}
	sites, err := sample(root, of, seed, n)
	if err != nil {
		return err
	}
	if list {
		for _, s := range sites {
			fmt.Println(s.room, s.id())
		}
		return nil
	}
	done, err := outcomes(out)
	if err != nil {
		return err
	}
	url, err := dbtest.Serve(ctx)
	if err != nil {
		return xerrors.Errorf("start PostgreSQL for the run: %w", err)
	}
	kept, err := keep(ctx, filepath.Dir(out))
	if err != nil {
		return err
	}
	env := append(os.Environ(), dbtest.URLEnv+"="+url, "PREWARM_SIM_SEEDS=20", "PREWARM_SIM_STOP=1", "PREWARM_ROUNDS=20") // as in `make test`
	programs, err := os.MkdirTemp("", "prewarm-mutate-")
	if err != nil {
		return xerrors.Errorf("make a folder for builds: %w", err)
	}
	defer os.RemoveAll(programs)
	t := tester{root: root, env: env, known: map[string]knowledge{}, kept: kept, worlds: worlds, both: newBoth(programs, sites)}
	var mu sync.Mutex // over done, and the file
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(jobs)
	for i, s := range sites {
		if before, ok := done[s.id()]; ok && !(again && (lives(before) || before == "hung")) {
			continue
		}
		eg.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			begun := time.Now()
			outcome, err := t.try(ctx, s)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if err := record(out, s, outcome); err != nil {
				return err
			}
			done[s.id()] = outcome
			fmt.Printf("%d of %d, %s: %s: %s\n", i+1, len(sites), time.Since(begun).Round(time.Second), outcome, s.id())
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	report(sites, done)
	return nil
}

// lives says whether nothing noticed a change.
func lives(outcome string) bool { return outcome == "survived" || outcome == "not reached" }

// outcomes are those of the runs before, by the change.
func outcomes(path string) (map[string]string, error) {
	done := map[string]string{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, xerrors.Errorf("read outcomes: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), "\t"); len(fields) == 3 {
			done[fields[2]] = fields[0]
		}
	}
	return done, nil
}

func record(path string, s site, outcome string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return xerrors.Errorf("record outcome: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return xerrors.Errorf("record outcome: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\n", outcome, s.room, s.id())
	return errors.Join(err, f.Close())
}

// keep is a folder for what is found out about the tests of this commit. Where something is not committed, it is none.
func keep(ctx context.Context, beneath string) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "", xerrors.Errorf("ask git for the commit: %w", err)
	}
	name := strings.TrimSpace(string(commit))
	if strings.HasSuffix(name, "-dirty") {
		return "", nil
	}
	dir := filepath.Join(beneath, "mutants-"+name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", xerrors.Errorf("keep what is known of the tests: %w", err)
	}
	return dir, nil
}

// tester runs the tests of rooms.
type tester struct {
	root string
	env  []string
	kept string // folder of what runs before have found out; empty: none

	worlds bool  // whether rooms' further packages are asked
	both   *both // nil: each change has a build of its own

	mu    sync.Mutex           // held while one finds something out
	known map[string]knowledge // by room
}

// try says what comes of a change.
func (t *tester) try(ctx context.Context, s site) (string, error) {
	of := rooms[slices.IndexFunc(rooms, func(r room) bool { return r.name == s.room })]
	k, err := t.know(ctx, of)
	if err != nil {
		return "", err
	}
	path := filepath.Join(t.root, s.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", xerrors.Errorf("change %s: %w", s.file, err)
	}
	dir, err := os.MkdirTemp("", "prewarm-mutate-")
	if err != nil {
		return "", xerrors.Errorf("change %s: %w", s.file, err)
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", xerrors.Errorf("change %s: %w", s.file, err)
	}
	if err := errors.Join(os.WriteFile(changed, s.apply(source), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", xerrors.Errorf("change %s: %w", s.file, err)
	}
	ask := func(pkg string, within time.Duration, batches [][]string) (string, error) {
		program, err := t.both.program(ctx, t, s, pkg)
		if err != nil {
			return "", err
		}
		if program == "" {
			program = filepath.Join(dir, filepath.Base(pkg)+".test")
			if built, err := t.build(ctx, overlay, program, pkg); err != nil {
				return "", err
			} else if !built {
				return "no build", nil
			}
		}
		return t.ask(ctx, s, program, pkg, within, batches)
	}
	tests, took := k.of(s)
	for _, pkg := range of.nearest(s.file) {
		if len(tests[pkg]) == 0 {
			continue
		}
		if outcome, err := ask(pkg, 45*time.Second+2*took, batches(tests[pkg])); outcome != "" || err != nil {
			return outcome, err
		}
	}
	further := of.further
	if !t.worlds {
		further = nil
	}
	for _, pkg := range further {
		outcome, err := ask(pkg, limit, [][]string{{"TestSeeds", "TestReplay"}})
		if outcome != "" || err != nil {
			return outcome, err
		}
	}
	if len(tests) == 0 {
		return "not reached", nil
	}
	return "survived", nil
}

// errInterrupted ends a run that is asked to end.
var errInterrupted = errors.New("interrupted; the same command goes on from here")

// build builds a package's tests with what an overlay changes. It returns false if they do not compile.
func (t *tester) build(ctx context.Context, overlay, program, pkg string) (bool, error) {
	// Without what only costs time: vet, and what debuggers need.
	err := t.command(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", program, pkg).Run()
	if ctx.Err() != nil {
		return false, errInterrupted
	}
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		return false, nil
	}
	if err != nil {
		return false, xerrors.Errorf("build the tests of %s: %w", pkg, err)
	}
	return true, nil
}

// ask says what batches of a package's tests make of a change, one batch after the other; empty: they all pass.
func (t *tester) ask(ctx context.Context, s site, program, pkg string, within time.Duration, of [][]string) (string, error) {
	for _, names := range of {
		cmd := t.command(ctx, program, "-test.failfast", "-test.timeout", min(limit, within).String(), "-test.run", exactly(names...))
		cmd.Dir = filepath.Join(t.root, pkg)
		cmd.Env = append(slices.Clone(t.env), changeEnv+"="+s.id())
		output, err := cmd.CombinedOutput()
		switch {
		case ctx.Err() != nil:
			return "", errInterrupted
		case err == nil:
		case strings.Contains(string(output), "panic: test timed out after"):
			return "hung", nil // or the machine was too busy: -again tries it once more
		default:
			return "killed", nil
		}
	}
	return "", nil
}

// batches are the names of tests, the quick ones first: most changes are noticed by one of them.
func batches(of []judge) (all [][]string) {
	slices.SortStableFunc(of, func(a, b judge) int { return cmp.Compare(a.Took, b.Took) })
	names, took, upTo := []string(nil), time.Duration(0), 3*time.Second
	for _, j := range of {
		if took += j.Took; took > upTo && len(names) > 0 {
			all, names, took, upTo = append(all, names), nil, j.Took, 5*upTo
		}
		names = append(names, j.Name)
	}
	return append(all, names)
}

// report prints the table of what was tried, and the survivors.
func report(sites []site, done map[string]string) {
	fmt.Print("\n| room | killed | hung | survived | not reached | no build |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, r := range rooms {
		n := map[string]int{}
		for _, s := range sites {
			if s.room == r.name {
				n[done[s.id()]]++
			}
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", r.name, n["killed"], n["hung"], n["survived"], n["not reached"], n["no build"])
	}
	for _, s := range sites {
		if outcome := done[s.id()]; lives(outcome) {
			fmt.Printf("%s: %s\n", outcome, s.id())
		}
	}
}
