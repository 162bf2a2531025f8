package e2etest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk/sdktest"
	"github.com/prewarm-dev/prewarm/coderd/tied"
)

// folder is where Main lets the binary be built.
var folder string

// Main runs the tests of a package, and removes the binary that they built.
func Main(m *testing.M) { os.Exit(Suite{m}.Run()) }

// Suite is Main for a package whose tests need something else around them too.
type Suite struct{ M *testing.M }

// Run runs the tests and returns the exit status.
func (s Suite) Run() int {
	var err error
	if folder, err = os.MkdirTemp("", "prewarm-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, xerrors.Errorf("create folder of binary: %w", err))
		return 1
	}
	defer os.RemoveAll(folder)
	sdktest.OwnConnections()
	return s.M.Run()
}

// BinaryEnv names the environment variable with the absolute path of a static binary that is built already. One build then
// serves the test processes of all packages.
const BinaryEnv = "PREWARM_TEST_BINARY"

var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		return checkGiven(path)
	}
	path := filepath.Join(folder, "prewarm")
	cmd := exec.Command("go", "build", "-o", path, "github.com/prewarm-dev/prewarm/cmd/prewarm")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as it is released: it is copied into containers
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", xerrors.Errorf("build binary: %w: %s", err, out)
	}
	return path, nil
})

// checkGiven returns the path if a program is there. Tests run in the folders of their packages, so a relative path would
// name another file in each of them.
func checkGiven(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", xerrors.Errorf("%s=%s is not an absolute path; name the binary from the root on", BinaryEnv, path)
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", xerrors.Errorf("%s names no program that can be executed: %w; "+
			"build one with CGO_ENABLED=0 go build -o %s ./cmd/prewarm, or unset the variable", BinaryEnv, err, path)
	}
	return path, nil
}

// Binary is the path of the binary: that which BinaryEnv names, otherwise one that the first test that asks
// builds.
func Binary(t testing.TB) string {
	t.Helper()
	if folder == "" {
		t.Fatal("the package's TestMain must call e2etest.Main")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Outcome is what a command came to.
type Outcome struct {
	Stdout, Stderr string
	Status         int // as of exit; -1 if a signal ended it
}

// Run runs the binary to its end, or until ctx ends it, with the environment of the test and env put over it.
func Run(ctx context.Context, t testing.TB, env []string, args ...string) Outcome {
	t.Helper()
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := tied.Start(cmd); err != nil {
		t.Fatalf("start %v: %v", args, err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", args, err)
	}
	return Outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// Public is a directory that every user may look into, for programs and files of workspaces: those of a server that is
// root run as users of their own.
func Public(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prewarm-public-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatalf("make public directory: %v", err)
	}
	return dir
}
