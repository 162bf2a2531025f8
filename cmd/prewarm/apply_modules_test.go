package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// moduleServer is a server that stores directories, and remembers what it was asked without them.
type moduleServer struct {
	*fakeServer
	mu      sync.Mutex
	stored  map[string]bool
	uploads int
}

func newModuleServer(t *testing.T) *moduleServer {
	t.Helper()
	s := &moduleServer{stored: map[string]bool{}}
	known := answers(t)
	known["GET /providers"] = answer{body: mustJSON(t, []sdk.Provider{{Name: "tf", Kind: "terraform"}, {Name: "other", Kind: "external"}})}
	s.fakeServer = newFakeServer(t, known)
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		digest, is := strings.CutPrefix(r.URL.Path, "/api/v1/modules/")
		if !is {
			inner.ServeHTTP(w, r)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPut {
			archive, err := io.ReadAll(r.Body)
			if err != nil || modules.Digest(archive) != digest {
				t.Errorf("%s was uploaded as %s: %v", modules.Digest(archive), digest, err)
			}
			s.stored[digest] = true
			s.uploads++
			w.WriteHeader(http.StatusCreated)
		} else if !s.stored[digest] {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "{}")
	})
	return s
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func digestOf(t *testing.T, dir string) string {
	t.Helper()
	archive, err := modules.Pack(dir)
	if err != nil {
		t.Fatal(err)
	}
	return modules.Digest(archive)
}

const withDirectories = `providers: [{name: new, kind: terraform}]
templates:
  - {name: a, provider: tf, spec: {module: ./vm}} # kept
  - {name: b, provider: new, spec: {module: "./vm", outputs: {}}}
  - {name: c, provider: other, spec: {module: ./vm}}
  - {name: d, provider: tf, spec: {module: https://example.com/vm.git}}
  - {name: e, provider: tf, spec: {module: {main.tf: x}}}
`

// A directory is uploaded once, and named by its digest; nothing else of the file changes. Both commands that send files do so.
func TestApply_directory(t *testing.T) {
	t.Parallel()
	s := newModuleServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "pool.yaml")
	writeFiles(t, dir, map[string]string{"pool.yaml": withDirectories, "vm/main.tf": "", "vm/sub/x.txt": "x"})
	digest := digestOf(t, filepath.Join(dir, "vm"))
	want := strings.NewReplacer("{module: ./vm}} # kept", "{module: "+digest+"}} # kept", `"./vm"`, digest).Replace(withDirectories)

	got := newShell(t, s.URL).run("apply", "-f", file)
	if got.status != 0 || s.uploads != 1 || got.stderr != "Uploaded "+filepath.Join(dir, "vm")+" (2.5 KiB).\n" {
		t.Errorf("%d uploads: %s", s.uploads, got)
	}
	for _, line := range []string{"apply --dry-run", "plan", "apply -o json"} {
		got := newShell(t, s.URL).run(append(strings.Fields(line), "-f", file)...)
		if got.status != 0 || s.uploads != 1 || strings.Contains(got.stderr, "Uploaded") {
			t.Errorf("%s: %d uploads: %s", line, s.uploads, got)
		}
	}
	sent := 0
	for _, request := range s.asked() {
		if strings.HasPrefix(request, "POST") {
			sent++
			if !strings.Contains(request, `"document":`+mustJSON(t, want)) {
				t.Errorf("%s\nis sent, and not\n%s", request, want)
			}
		}
	}
	if sent != 4 {
		t.Errorf("%d requests: %v", sent, s.asked())
	}

	writeFiles(t, dir, map[string]string{"vm/sub/x.txt": "y"})
	if got := newShell(t, s.URL).run("apply", "-f", file); got.status != 0 || s.uploads != 2 {
		t.Errorf("%d uploads: %s", s.uploads, got)
	}
}

// What is wrong with directories is told at once, each with its place, and nothing is sent.
func TestApply_directory_refused(t *testing.T) {
	t.Parallel()
	s := newModuleServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "pool.yaml")
	writeFiles(t, dir, map[string]string{
		"pool.yaml": `templates:
  - {name: a, provider: tf, spec: {module: ./none}}
  - {name: b, provider: tf, spec: {module: ./empty}}
  - name: c
    provider: tf
    spec:
      module: ./large
  - {name: d, provider: tf, spec: {module: ./linked}}
  - name: e
    provider: tf
    spec:
      module: ./fine
        /sub
`,
		"empty/sub/main.tf": "", "large/main.tf": "", "large/image": "", "linked/main.tf": "", "fine /sub/main.tf": "",
	})
	if err := os.Truncate(filepath.Join(dir, "large", "image"), 50<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "linked", "x")); err != nil {
		t.Fatal(err)
	}
	got := newShell(t, s.URL).run("apply", "-f", file)
	want := strings.ReplaceAll(`prewarm: DIR/pool.yaml:2:44: spec.module: DIR/none: there is no such directory
DIR/pool.yaml:3:44: spec.module: DIR/empty: there is no *.tf file in the directory itself
DIR/pool.yaml:7:15: spec.module: DIR/large: the directory has 50.0 MiB; at most 10.0 MiB can be uploaded. The largest files are image (50.0 MiB), main.tf (0.0 KiB)
DIR/pool.yaml:8:44: spec.module: DIR/linked: "x" is a symbolic link, which is not uploaded: put a copy of what it leads to in its place
DIR/pool.yaml:12:15: spec.module must be on one line, such as module: ./vm
`, "DIR", dir)
	if got.status != 1 || got.stderr != want {
		t.Errorf("wanted %s, got %s", want, got)
	}
	if asked := s.asked(); len(asked) != 1 || asked[0] != "GET /providers" {
		t.Errorf("the server was asked %v", asked)
	}
}

// From standard input directories are relative to where the command runs.
func TestApply_directory_stdin(t *testing.T) {
	s := newModuleServer(t)
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"vm/main.tf": ""})
	t.Chdir(dir)
	sh := newShell(t, s.URL)
	sh.stdin = strings.NewReader("templates: [{name: a, provider: tf, spec: {module: vm}}]")
	got := sh.run("apply", "-f", "-")
	if asked := strings.Join(s.asked(), "\n"); got.status != 0 || s.uploads != 1 || !strings.Contains(asked, digestOf(t, "vm")) {
		t.Errorf("%s, asked %s", got, asked)
	}
}
