package storm_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// olderBinary builds the last binary before the newest migration, from this repository's history: what an upgrade runs
// beside the new one. Empty where there is no history to build it from.
func olderBinary(t *testing.T) string {
	t.Helper()
	commit, err := commitBefore(t)
	if err != nil {
		if complete() {
			t.Fatalf("cannot build the binary before the newest migration, and so try no upgrade: %v\n"+
				"Fetch the history first: git fetch --unshallow", err)
		}
		t.Logf("LEFT OUT: no upgrade is tried, since the binary before the newest migration cannot be built: %v", err)
		return ""
	}
	dir := t.TempDir()
	archive := exec.Command("git", "archive", "--format=tar", commit)
	archive.Dir = root(t)
	extract := exec.Command("tar", "-x", "-C", dir)
	extract.Stdin, err = archive.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, archive.Start())
	out, err := extract.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, archive.Wait())

	binary := filepath.Join(dir, "prewarm-before")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/prewarm")
	build.Dir = dir
	out, err = build.CombinedOutput()
	require.NoError(t, err, "build %s: %s", commit, out)
	t.Logf("the binary before is that of commit %s", commit)
	return binary
}

// commitBefore is the first parent of the commit on the main line that brought the newest migration.
func commitBefore(t *testing.T) (string, error) {
	t.Helper()
	files, err := fs.Glob(database.Migrations(), "*.sql")
	require.NoError(t, err)
	newest := path.Join("database", "migrations", files[len(files)-1]) // Glob sorts
	if out, _ := git(t, "rev-parse", "--is-shallow-repository"); out == "true" {
		return "", xerrors.New("this is a shallow clone")
	}
	// -m: a merge counts as bringing what is new to the main line.
	brought, err := git(t, "log", "--first-parent", "-m", "--diff-filter=A", "--format=%H", "-1", "--", newest)
	if err != nil {
		return "", err
	}
	if brought == "" {
		brought = "HEAD^{commit}" // the migration is not committed yet
		return git(t, "rev-parse", "--verify", "-q", brought)
	}
	return git(t, "rev-parse", "--verify", "-q", brought+"^1")
}

func git(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", xerrors.Errorf("git %s: %s: %w", strings.Join(args, " "), strings.TrimSpace(stderr.String()), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// root is the top folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	return filepath.Join(dir, "..", "..", "..")
}
