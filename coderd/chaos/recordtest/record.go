// Package recordtest keeps the record of long runs: a table to which each `make chaos` and `make sim` appends its line when it has
// ended, also one that failed, so that what has run is not what somebody remembers. One that is killed has none.
package recordtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/xerrors"
)

// Env names the file of the table, whose last lines are the table's rows; where it is not set, nothing is kept. `make` sets it.
const Env = "PREWARM_RECORD"

// Run is a line of the table. A test fills it in as it goes.
type Run struct {
	Command    string // that would run it again
	Length     string // with its unit
	Faults     int
	Claims     int // asked for
	Violations int
}

// Keep appends the run's line when the test has ended.
func Keep(t testing.TB, r *Run) {
	t.Helper()
	path, began := os.Getenv(Env), time.Now()
	if path == "" {
		return
	}
	revision, err := version(t.Context(), path)
	if err != nil {
		t.Logf("the version of this run is not known: %v", err)
		revision = "unknown"
	}
	machine := fmt.Sprintf("%d processors, %s", runtime.NumCPU(), runtime.GOARCH)
	t.Cleanup(func() {
		if err := add(path, r.line(began, revision, machine, t.Failed())); err != nil {
			t.Errorf("keep a line of this run: %v", err)
		}
	})
}

func (r *Run) line(began time.Time, version, machine string, failed bool) string {
	outcome := fmt.Sprint(r.Violations)
	if failed && r.Violations == 0 {
		outcome = "failed otherwise"
	}
	return fmt.Sprintf("| %s | `%s` | %s | %s | %s | %d | %d | %s |\n", began.UTC().Format(time.DateOnly), r.Command, version,
		machine, cmp.Or(r.Length, "none"), r.Faults, r.Claims, outcome)
}

// version is the commit, with a + if the tree has changes beside those of the table.
func version(ctx context.Context, path string) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = filepath.Dir(path)
		out, err := cmd.Output()
		if err != nil {
			return "", xerrors.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git("status", "--porcelain", "--", ":/", ":(exclude)"+filepath.Base(path))
	if changes != "" {
		commit += "+"
	}
	return commit, err
}

func add(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
