package e2etest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/xerrors"
)

// ErrNoCommit is that the repository has not got a commit, as in a shallow clone or in sources without a history.
var ErrNoCommit = errors.New("the commit is not there")

// Older is the path of the static binary of an older commit, given by its full hash, with the web UI of that commit where
// site is true. It is kept in the user's cache folder, so that it is built once. The error wraps ErrNoCommit where there
// is no history to build it from.
func Older(t testing.TB, commit string, site bool) (string, error) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", xerrors.Errorf("find cache folder: %w", err)
	}
	kind := "binary"
	if site {
		kind = "site"
	}
	kept := filepath.Join(cache, "prewarm", "older", commit, kind, "prewarm")
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	if err := fetchCommit(commit); err != nil {
		return "", err
	}
	t.Logf("building the binary of commit %s into %s, once", commit, kept)
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return "", xerrors.Errorf("create cache folder: %w", err)
	}
	// Beside where it is kept, so that it is renamed to there whole: another process may build it at the same time.
	tree, err := os.MkdirTemp(filepath.Dir(kept), "tree-")
	if err != nil {
		return "", xerrors.Errorf("create folder of commit: %w", err)
	}
	defer os.RemoveAll(tree)
	if err := buildOlder(commit, tree, site); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(tree, "prewarm.new"), kept); err != nil {
		return "", xerrors.Errorf("keep binary of commit %s: %w", commit, err)
	}
	return kept, nil
}

// fetchCommit makes sure that the commit is there. In CI it fetches one that is missing.
func fetchCommit(commit string) error {
	_, err := Git("cat-file", "-e", commit+"^{commit}")
	if err == nil {
		return nil
	}
	if os.Getenv("CI") != "" {
		if _, err = Git("fetch", "--quiet", "--depth=1", "origin", commit); err == nil {
			return nil
		}
	}
	return xerrors.Errorf("%w: %s: %w; fetch the history first: git fetch --unshallow", ErrNoCommit, commit, err)
}

func buildOlder(commit, tree string, site bool) error {
	root, err := Git("rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	tarball := filepath.Join(tree, "tree.tar")
	steps := []*exec.Cmd{
		exec.Command("git", "-C", root, "archive", "--format=tar", "--output="+tarball, commit),
		exec.Command("tar", "-x", "-C", tree, "-f", tarball),
	}
	if site {
		for _, args := range [][]string{
			{"npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"},
			{"npm", "run", "--silent", "build", "--", "--logLevel", "warn"},
		} {
			step := exec.Command(args[0], args[1:]...)
			step.Dir = filepath.Join(tree, "site")
			steps = append(steps, step)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(tree, "prewarm.new"), "./cmd/prewarm")
	build.Dir, build.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	for _, step := range append(steps, build) {
		if out, err := step.CombinedOutput(); err != nil {
			return xerrors.Errorf("build commit %s: %s: %w: %s", commit, strings.Join(step.Args, " "), err, out)
		}
	}
	return nil
}

// Git runs git in the repository that the test is in, and returns what it prints.
func Git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", xerrors.Errorf("git %s: %s: %w", strings.Join(args, " "), strings.TrimSpace(stderr.String()), err)
	}
	return strings.TrimSpace(string(out)), nil
}
