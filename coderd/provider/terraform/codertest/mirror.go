// Package codertest builds plugins of Terraform for tests, unchanged, from their Go modules: the provider `coder` of Coder templates, and
// those that many modules use. One that misbehaves is ours.
package codertest

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/xerrors"
)

// plugin is a command, and what a module names it by.
type plugin struct{ folder, command, namespace, name string }

// Folders with a go.mod in which versions stand. What the older plugins need does not go with what the newer one does.
const newer, older = "scripts/coder", "scripts/plugins"

// Mirror is a directory with the provider `coder`, as a mirror of Terraform and of OpenTofu. Every user can read it.
func Mirror(t testing.TB) string {
	t.Helper()
	return mirror(t, plugin{newer, "github.com/coder/terraform-provider-coder/v2", "coder", "coder"})
}

// Misbehaving is one with prewarm/misbehaving.
func Misbehaving(t testing.TB) string {
	t.Helper()
	return mirror(t, plugin{newer, "github.com/prewarm-dev/prewarm/scripts/coder/misbehaving", "prewarm", "misbehaving"})
}

// Usual is one with http, local, null and random of HashiCorp, in the last versions that are Go modules.
func Usual(t testing.TB) string {
	t.Helper()
	var all []plugin
	for _, name := range []string{"http", "local", "null", "random"} {
		all = append(all, plugin{older, "github.com/terraform-providers/terraform-provider-" + name, "hashicorp", name})
	}
	return mirror(t, all...)
}

func mirror(t testing.TB, plugins ...plugin) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prewarm-mirror-")
	if err != nil {
		t.Fatalf("make mirror: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, p := range plugins {
		if err := build(dir, p); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func build(dir string, p plugin) error {
	from, err := source(p.folder)
	if err != nil {
		return err
	}
	out, err := command(from, "list", "-f", "{{.Module.Version}}", p.command)
	if err != nil {
		return err
	}
	version := cmp.Or(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(out), "v"), "+incompatible"), "1.0.0")
	name := filepath.Join(p.namespace, p.name, version, runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-"+p.name+"_v"+version)
	first := filepath.Join(dir, "registry.terraform.io", name)
	if _, err := command(from, "build", "-trimpath", "-ldflags", "-s -w", "-o", first, p.command); err != nil {
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

// source is a folder of this repository.
func source(folder string) (string, error) {
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
