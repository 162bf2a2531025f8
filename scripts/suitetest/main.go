package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func main() {
	race := flag.Bool("race", true, "run unit and database tests with the race detector")
	only := flag.String("only", "", "run the steps with these names, separated by commas")
	binary := flag.String("binary", "", "the prewarm binary that process tests run; empty: each package builds its own")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: suitetest [flags] %s [package...]\n\nOnly quick takes packages. Flags:\n",
			strings.Join(planNames(), "|"))
		flag.PrintDefaults()
	}
	flag.Parse()
	p, ok := plans[flag.Arg(0)]
	if !ok || (flag.NArg() > 1 && flag.Arg(0) != "quick") {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p, options{race: *race, only: names(*only), binary: *binary, packages: flag.Args()[1:]}); err != nil {
		fmt.Fprintln(os.Stderr, "suitetest:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	race     bool
	only     map[string]bool // empty: all
	binary   string
	packages []string
}

func names(list string) map[string]bool {
	chosen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			chosen[name] = true
		}
	}
	return chosen
}

// run runs the steps of a plan, and returns an error if one of them failed.
func run(ctx context.Context, p plan, opts options) error {
	steps, err := p.steps(ctx, opts)
	if err != nil {
		return err
	}
	if steps, err = choose(steps, opts.only); err != nil {
		return err
	}
	env := os.Environ()
	if p.postgres && os.Getenv(dbtest.URLEnv) == "" {
		url, err := dbtest.Serve(ctx)
		if err != nil {
			return xerrors.Errorf("start PostgreSQL for the run: %w", err)
		}
		env = append(env, dbtest.URLEnv+"="+url)
	}
	if opts.binary != "" {
		path, err := filepath.Abs(opts.binary)
		if err != nil {
			return xerrors.Errorf("find binary: %w", err)
		}
		env = append(env, e2etest.BinaryEnv+"="+path)
	}

	begun := time.Now()
	results := perform(ctx, os.Stdout, steps, env)
	return report(os.Stdout, p, results, time.Since(begun), ctx.Err())
}

// perform runs steps one after the other, and those beside them likewise, until ctx ends. The results are in their order.
func perform(ctx context.Context, out io.Writer, steps []step, env []string) []result {
	results, printed := make([]result, len(steps)), make([]bytes.Buffer, len(steps))
	titled := func(i int, out io.Writer, note string) {
		s := steps[i]
		fmt.Fprintf(out, "\n=== %d of %d: %s (%s)%s\n", i+1, len(steps), s.name, strings.Join(slices.Concat(s.env, s.command), " "), note)
	}
	one := func(i int, out io.Writer) {
		if ctx.Err() == nil {
			at := time.Now()
			err := execute(ctx, steps[i], env, out)
			results[i] = result{steps[i].name, time.Since(at), err}
		}
	}
	var running sync.WaitGroup
	others := make(chan int, len(steps))
	running.Go(func() {
		for i := range others {
			one(i, &printed[i])
		}
	})
	for i, s := range steps {
		if ctx.Err() != nil {
			break
		}
		if s.beside && slices.ContainsFunc(steps[i:], func(s step) bool { return !s.beside }) {
			titled(i, out, ": beside what follows")
			others <- i
			continue
		}
		titled(i, out, "")
		one(i, out)
	}
	close(others)
	running.Wait()
	for i := range printed {
		if printed[i].Len() > 0 {
			titled(i, out, ": this is what it printed")
			_, _ = printed[i].WriteTo(out)
		}
	}
	return slices.DeleteFunc(results, func(r result) bool { return r.name == "" })
}

func choose(steps []step, only map[string]bool) (chosen []step, err error) {
	if len(only) == 0 {
		return steps, nil
	}
	var known []string
	for _, s := range steps {
		known = append(known, s.name)
		if only[s.name] {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) != len(only) {
		return nil, xerrors.Errorf("-only names a step that is not there; the steps are %s", strings.Join(known, ", "))
	}
	return chosen, nil
}

// execute runs one step. When ctx ends it asks the step to end, and kills it if it does not.
func execute(ctx context.Context, s step, env []string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	cmd.Dir = s.dir
	cmd.Env = slices.Concat(env, s.env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}

type result struct {
	name  string
	after time.Duration
	err   error
}

func report(w io.Writer, p plan, results []result, all time.Duration, interrupted error) error {
	var failed []string
	fmt.Fprintf(w, "\n%-12s %8s  %s\n", "STEP", "TIME", "OUTCOME")
	for _, r := range results {
		outcome := "ok"
		if r.err != nil {
			outcome = r.err.Error()
			failed = append(failed, r.name)
		}
		fmt.Fprintf(w, "%-12s %7.0fs  %s\n", r.name, r.after.Seconds(), outcome)
	}
	fmt.Fprintf(w, "%-12s %7.0fs\n", "all", all.Seconds())
	if p.aim > 0 && all > p.aim {
		fmt.Fprintf(w, "This took longer than it should on two idle cores: %s.\n", p.aim)
	}
	if interrupted != nil {
		return errors.New("interrupted")
	}
	if len(failed) > 0 {
		return xerrors.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}
