package e2e_test

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// debian is what instances are made of that boot a Debian: see testdata/debian.
type debian struct {
	dir     string
	Machine string // for externaltest.Config
	Runner  string // the runner's package, for forgetest.Options
}

// newDebian needs root, and what scripts/debian.sh makes. Where either is missing the test is left out, but on CI it fails.
func newDebian(t *testing.T) debian {
	t.Helper()
	script := exec.CommandContext(t.Context(), "../../scripts/debian.sh")
	var told strings.Builder
	script.Stderr = &told
	out, err := script.Output()
	switch {
	case err == nil:
	case os.Getenv("CI") != "" && os.Getenv("CI") != "false":
		t.Fatalf("CI must run this: %v: %s", err, told.String())
	default:
		t.Skipf("no root of a Debian: %v: %s", err, told.String())
	}
	dir := e2etest.Public(t)
	d := debian{dir: dir, Machine: filepath.Join(dir, "machine"), Runner: filepath.Join(dir, "runner.tar.gz")}
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "debian"))))
	require.NoError(t, os.Symlink(strings.TrimSpace(string(out)), filepath.Join(dir, "root")))
	programOf(t, filepath.Join(dir, "layer", "usr", "local", "sbin", "userdata"), "coderd/provider/external/externaltest/userdata")
	programOf(t, filepath.Join(dir, "runner", "bin", "runner"), "coderd/demand/forgetest/runner")
	programOf(t, filepath.Join(dir, "layer", "usr", "local", "bin", "runner"), "coderd/demand/forgetest/runner")
	packed(t, filepath.Join(dir, "runner"), d.Runner)
	return d
}

// programOf builds a program that runs anywhere.
func programOf(t *testing.T, path, pkg string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", path, "github.com/prewarm-dev/prewarm/"+pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func packed(t *testing.T, dir, file string) {
	t.Helper()
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	require.NoError(t, archive.AddFS(os.DirFS(dir)))
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	require.NoError(t, f.Close())
}

// debianImage is the reference of what image makes.
const debianImage = "prewarm.test/debian:1"

// image makes an image of it for an engine.
func (d debian) image(t *testing.T, engine *dockertest.Engine) {
	t.Helper()
	layer := filepath.Join(d.dir, "layer")
	args := []string{"-c", "-C", filepath.Join(d.dir, "root") + "/", ".", "-C", layer}
	require.NoError(t, filepath.WalkDir(layer, func(path string, e fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, layer+"/"); err == nil && !e.IsDir() && name != "etc/hosts" { // which the engine makes
			args = append(args, "./"+name)
		}
		return err
	}))
	archive, w := io.Pipe()
	pack := exec.CommandContext(t.Context(), "tar", args...)
	pack.Stdout = w
	go func() { _ = w.CloseWithError(pack.Run()) }()
	imported, err := engine.Client.ImageImport(t.Context(), client.ImageImportSource{Source: archive, SourceName: "-"}, debianImage,
		client.ImageImportOptions{Changes: []string{`CMD ["sleep", "infinity"]`}})
	require.NoError(t, err)
	defer imported.Close()
	_, err = io.Copy(io.Discard, imported)
	require.NoError(t, err)
}
