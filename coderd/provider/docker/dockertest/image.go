package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/moby/moby/client"
)

// GuestImage is the reference of the image that Image makes.
const GuestImage = "prewarm.test/guest:1"

// Image makes an image of one static program (package guest), as no registry is asked for any, and returns GuestImage. It
// has a user guest, 1000:1000, but runs as root.
func (e *Engine) Image(t testing.TB) string {
	t.Helper()
	if err := e.AddImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	return GuestImage
}

// AddImage is Image for whoever is no test.
func (e *Engine) AddImage(ctx context.Context) error {
	program, err := guest()
	if err != nil {
		return err
	}
	return e.Import(ctx, GuestImage, program, `ENTRYPOINT ["/bin/guest"]`, `CMD ["serve"]`, "ENV IMAGE=guest")
}

// Import makes an image whose only program is /bin/guest, with the given content. Changes are lines of a Dockerfile.
func (e *Engine) Import(ctx context.Context, reference string, program []byte, changes ...string) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	passwd := "root:x:0:0::/:/bin/guest\nguest:x:1000:1000::/home/guest:/bin/guest\n"
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
		owner   int
	}{
		{"bin/", 0o755, nil, 0},
		{"bin/guest", 0o755, program, 0},
		{"etc/", 0o755, nil, 0},
		{"etc/passwd", 0o644, []byte(passwd), 0},
		{"tmp/", 0o1777, nil, 0},
		{"home/", 0o755, nil, 0},
		{"home/guest/", 0o755, nil, 1000},
		{"data/", 0o755, nil, 0},
	} {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), Uid: file.owner, Gid: file.owner}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("make image: %w", err)
		}
		if _, err := w.Write(file.content); err != nil {
			return fmt.Errorf("make image: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	imported, err := e.Client.ImageImport(ctx, client.ImageImportSource{Source: &archive, SourceName: "-"}, reference,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	defer imported.Close()
	if _, err := io.Copy(io.Discard, imported); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}

// guest builds the program, once.
var guest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "prewarm-guest-")
	if err != nil {
		return nil, fmt.Errorf("build guest: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "guest")
	build := exec.Command("go", "build", "-o", path, "-ldflags", "-s -w",
		"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build guest: %w: %s", err, out)
	}
	return os.ReadFile(path)
})
