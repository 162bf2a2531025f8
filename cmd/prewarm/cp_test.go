package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/quartz"
	"github.com/creack/pty"

	"github.com/prewarm-dev/prewarm/coderd/agent/files"
)

// copyServer has the files of one workspace, served as its agent would.
func copyServer(t *testing.T) (url, inside string) {
	t.Helper()
	inside = t.TempDir()
	mux := http.NewServeMux()
	mux.Handle("/api/v1/workspaces/ws/", http.StripPrefix("/api/v1/workspaces/ws", files.Handler(inside)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, inside
}

func put(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func has(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q, %v", path, got, err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	url, inside := copyServer(t)
	local := t.TempDir()
	file := put(t, filepath.Join(local, "file"), "content")
	put(t, filepath.Join(local, "dir", "sub", "f"), "deep")
	sh := newShell(t, url)
	ok := func(args ...string) outcome {
		t.Helper()
		got := sh.run(append([]string{"cp"}, args...)...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%v: %s", args, got)
		}
		return got
	}
	// Files, into a directory by their name or under another one.
	ok(file, "ws:")
	has(t, filepath.Join(inside, "file"), "content")
	if info, err := os.Stat(filepath.Join(inside, "file")); err != nil || info.Mode() != 0o640 {
		t.Error(info, err)
	}
	ok(file, "ws:other")
	has(t, filepath.Join(inside, "other"), "content")
	ok(file, "ws:"+inside+"/sub/../abs")
	has(t, filepath.Join(inside, "abs"), "content")
	ok("ws:other", local)
	has(t, filepath.Join(local, "other"), "content")
	ok("ws:other", filepath.Join(local, "renamed"))
	has(t, filepath.Join(local, "renamed"), "content")
	if got := ok("ws:other", "-"); got.stdout != "content" {
		t.Error(got)
	}
	sh.stdin = strings.NewReader("typed")
	ok("-", "ws:typed")
	has(t, filepath.Join(inside, "typed"), "typed")

	// Directories, in the place of nothing, or into one that is there.
	ok("-r", filepath.Join(local, "dir"), "ws:tree")
	has(t, filepath.Join(inside, "tree", "sub", "f"), "deep")
	ok("-r", filepath.Join(local, "dir"), "ws:tree")
	has(t, filepath.Join(inside, "tree", "dir", "sub", "f"), "deep")
	ok("-r", "ws:tree", filepath.Join(local, "new"))
	has(t, filepath.Join(local, "new", "dir", "sub", "f"), "deep")
	ok("-r", "ws:tree/", local)
	has(t, filepath.Join(local, "tree", "sub", "f"), "deep")
	archive := ok("-r", "ws:tree", "-").stdout
	sh.stdin = strings.NewReader(archive)
	ok("-r", "-", "ws:piped")
	has(t, filepath.Join(inside, "piped", "sub", "f"), "deep")

	for line, want := range map[string]string{
		file + " ws:none/x":                  "no such file or directory",
		"ws:none " + local:                   inside + "/none: no such file or directory",
		"ws:tree " + local + "/x":            inside + "/tree: is a directory",
		local + "/dir ws:x":                  local + "/dir is a directory: add -r",
		"-r " + file + " ws:x":               "not a directory",
		local + "/none ws:x":                 "no such file or directory",
		"ws:file " + local + "/no/such":      "no such file or directory",
		"-r ws:file " + local + "/x":         inside + "/file: not a directory",
		"a b":                                "one of SOURCE and TARGET must be in a workspace",
		"ws:a ws:b":                          "one of SOURCE and TARGET must be in a workspace",
		"./ws:a b":                           "one of SOURCE and TARGET must be in a workspace",
		"- ws:":                              "has no name",
		"a":                                  "TARGET is missing",
		"-o json ws:file x":                  "so -o json cannot be",
		"ws:.. " + local + " ":               "has no name",
		file + " ws:" + inside + "/tree/../": "",
	} {
		got := sh.run(append([]string{"cp"}, strings.Fields(line)...)...)
		if (got.status == 0) != (want == "") || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// A download that is cut leaves what was there.
func TestCopy_cut(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, map[string]answer{"GET /workspaces/ws/files/content": {handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	}}})
	file := put(t, filepath.Join(t.TempDir(), "file"), "old")
	if got := newShell(t, server.URL).run("cp", "ws:file", file); got.status != 1 || !strings.Contains(got.stderr, "unexpected EOF") {
		t.Error(got)
	}
	has(t, file, "old")
}

// A terminal shows how far a long copy is, and keeps nothing of that.
func TestCopy_progress(t *testing.T) {
	t.Parallel()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	clock := quartz.NewMock(t)
	a := &app{stderr: theirs, clock: clock}
	content := &counted{Reader: bytes.NewReader(make([]byte, 3<<20))}
	end := a.progress(t.Context(), content, 3<<20)
	if _, err := io.ReadFull(content, make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	clock.Advance(progressEvery).MustWait(t.Context())
	readUntil(t, ours, "2.0 MiB of 3.0 MiB")
	end()
	readUntil(t, ours, "\r\x1b[K")
	var plain bytes.Buffer
	end = (&app{stderr: &plain, clock: clock}).progress(t.Context(), content, 1)
	clock.Advance(progressEvery).MustWait(t.Context())
	end()
	if plain.Len() > 0 {
		t.Error(plain.String())
	}
}

// A file that grows while it is sent is sent as far as it was long.
func TestCopy_growingFile(t *testing.T) {
	t.Parallel()
	name := put(t, filepath.Join(t.TempDir(), "file"), "begin and more")
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := start{f, 5}
	var _ syscall.Conn = content // what net looks for
	if got, err := io.ReadAll(content); err != nil || string(got) != "begin" || content.read() != 5 {
		t.Error(string(got), err, content.read())
	}
	if n, err := io.Copy(io.Discard, content); n != 0 || err != nil {
		t.Error("what came later is not sent", n, err)
	}
}
