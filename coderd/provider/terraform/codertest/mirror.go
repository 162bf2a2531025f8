// Package codertest builds the provider `coder` of Coder templates from its Go module, unchanged, for tests that run such templates.
package codertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/xerrors"
)

// provider is the command of its module, whose version stands in the go.mod of folder.
const provider, folder = "github.com/coder/terraform-provider-coder/v2", "scripts/coder"

// Mirror is a directory with the provider, as a mirror of Terraform and of OpenTofu. Every user can read it.
func Mirror(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prewarm-mirror-")
	if err != nil {
		t.Fatalf("make mirror: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := build(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func build(dir string) error {
	from, err := source()
	if err != nil {
		return err
	}
	out, err := command(from, "list", "-m", "-f", "{{.Version}}", provider)
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(strings.TrimSpace(out), "v")
	name := filepath.Join("coder", "coder", version, runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-coder_v"+version)
	first := filepath.Join(dir, "registry.terraform.io", name)
	if _, err := command(from, "build", "-trimpath", "-ldflags", "-s -w", "-o", first, provider); err != nil {
		return err
	}
	second := filepath.Join(dir, "registry.opentofu.org", name)
	if err = os.MkdirAll(filepath.Dir(second), 0o755); err == nil {
		err = os.Link(first, second)
	}
	if err != nil {
		return xerrors.Errorf("link provider: %w", err)
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// source is the folder of the module that has the version.
func source() (string, error) {
	out, err := command("", "list", "-m", "-f", "{{.Dir}}")
	return filepath.Join(strings.TrimSpace(out), folder), err
}

func command(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", xerrors.Errorf("go %s: %w: %s", args[0], err, stderr.String())
	}
	return string(out), nil
}
