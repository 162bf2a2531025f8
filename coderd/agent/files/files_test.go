package files_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/agent/files"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// place is a workspace's directory, with its files served.
type place struct {
	t      *testing.T
	dir    string
	url    string
	client *http.Client
}

func serve(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewServer(files.Handler(dir))
	t.Cleanup(server.Close)
	// Its own client, for the reason of sdktest.OwnConnections.
	return place{t, dir, server.URL, server.Client()}
}

func (p place) at(name string) string { return filepath.Join(p.dir, name) }

func (p place) write(name, content string) {
	p.t.Helper()
	require.NoError(p.t, os.MkdirAll(filepath.Dir(p.at(name)), 0o755))
	require.NoError(p.t, os.WriteFile(p.at(name), []byte(content), 0o600))
}

type answer struct {
	status int
	header http.Header
	body   string
}

// ask makes a request. query is path first, then names and values.
func (p place) ask(method, what string, query []string, body io.Reader, header ...string) answer {
	p.t.Helper()
	q := url.Values{}
	for i, s := range query {
		if i == 0 {
			q.Set("path", s)
		} else if i%2 == 0 {
			q.Set(query[i-1], s)
		}
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+"/files"+what+"?"+q.Encode(), body)
	require.NoError(p.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{resp.StatusCode, resp.Header, string(content) + " and then " + err.Error()}
	}
	return answer{resp.StatusCode, resp.Header, string(content)}
}

func (p place) post(what string, body any) answer {
	p.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(p.t, err)
	return p.ask(http.MethodPost, what, nil, bytes.NewReader(raw))
}

func decoded[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &v))
	return v
}

func TestContent(t *testing.T) {
	t.Parallel()
	p := serve(t)
	made := decoded[sdk.File](t, p.ask("PUT", "/content", []string{"a/b", "parents", "true", "mode", "0750", "sync", "true"}, strings.NewReader("hello there")))
	require.Equal(t, sdk.File{Name: "b", Type: "file", Size: 11, Mode: "0750", ModifiedAt: made.ModifiedAt}, made)
	whole := p.ask("GET", "/content", []string{p.at("a/b")}, nil)
	require.Equal(t, []any{200, "hello there", "11"}, []any{whole.status, whole.body, whole.header.Get("Content-Length")})
	part := p.ask("GET", "/content", []string{"a/b"}, nil, "Range", "bytes=6-8", "If-Range", whole.header.Get("ETag"))
	require.Equal(t, []any{206, "the", "bytes 6-8/11"}, []any{part.status, part.body, part.header.Get("Content-Range")})
	require.Equal(t, "there", p.ask("GET", "/content", []string{"a/b"}, nil, "Range", "bytes=-5").body)
	require.Equal(t, 416, p.ask("GET", "/content", []string{"a/b"}, nil, "Range", "bytes=11-").status)
	require.Equal(t, 304, p.ask("GET", "/content", []string{"a/b"}, nil, "If-None-Match", whole.header.Get("ETag")).status)

	// What has changed is not mixed with what it was.
	decoded[sdk.File](t, p.ask("PUT", "/content", []string{"a/b"}, strings.NewReader("HELLO THERE")))
	part = p.ask("GET", "/content", []string{"a/b"}, nil, "Range", "bytes=6-8", "If-Range", whole.header.Get("ETag"))
	require.Equal(t, []any{200, "HELLO THERE"}, []any{part.status, part.body})
	require.Equal(t, "0750", decoded[sdk.File](t, p.ask("GET", "/stat", []string{"a/b"}, nil)).Mode, "it keeps its mode")

	require.NoError(t, os.Symlink("a/b", p.at("l")))
	decoded[sdk.File](t, p.ask("PUT", "/content", []string{"l"}, strings.NewReader("")))
	link := decoded[sdk.File](t, p.ask("GET", "/stat", []string{"l"}, nil))
	require.Equal(t, []any{"symlink", "a/b"}, []any{link.Type, link.Target})
	empty := decoded[sdk.File](t, p.ask("GET", "/stat", []string{"l", "follow", "true"}, nil))
	require.Equal(t, []any{"file", int64(0)}, []any{empty.Type, empty.Size}, "what the link leads to was written")
	require.Equal(t, answer{200, nil, ""}, func() answer { a := p.ask("GET", "/content", []string{"l"}, nil); a.header = nil; return a }())
	require.Contains(t, p.ask("GET", "/content", []string{"/proc/self/status"}, nil).body, "Pid:")
}

// An upload that is cut changes nothing.
func TestContent_cut(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.write("f", "old")
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/files/content?path=f", r)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := p.client.Do(req)
		done <- err
	}()
	_, err = w.Write(bytes.Repeat([]byte("new"), 100_000))
	require.NoError(t, err)
	require.NoError(t, w.CloseWithError(io.ErrNoProgress))
	require.ErrorIs(t, <-done, io.ErrNoProgress)
	for { // until the handler has seen it
		list, err := os.ReadDir(p.dir)
		require.NoError(t, err)
		if len(list) == 1 {
			break
		}
		require.NoError(t, t.Context().Err())
	}
	content, err := os.ReadFile(p.at("f"))
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
}

func TestList(t *testing.T) {
	t.Parallel()
	p := serve(t)
	for i := range 1100 {
		p.write(fmt.Sprintf("d/%04d", i), "")
	}
	require.NoError(t, os.Symlink("nowhere", p.at("d/link")))
	require.NoError(t, syscall.Mkfifo(p.at("d/pipe"), 0o600))
	var all []string
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		list := decoded[sdk.FileList](t, p.ask("GET", "", []string{"d", "after", after, "limit", "400"}, nil))
		require.Equal(t, p.at("d"), list.Path)
		require.LessOrEqual(t, len(list.Files), 400)
		for _, f := range list.Files {
			all = append(all, f.Name)
		}
		after = list.Next
	}
	require.Len(t, all, 1102)
	for i := range 1100 {
		require.Equal(t, fmt.Sprintf("%04d", i), all[i])
	}
	last := decoded[sdk.FileList](t, p.ask("GET", "", []string{"d", "after", "1099", "limit", "2"}, nil))
	require.Equal(t, []string{"symlink", "other"}, []string{last.Files[0].Type, last.Files[1].Type})
	require.Empty(t, last.Next)
	require.Len(t, decoded[sdk.FileList](t, p.ask("GET", "", []string{"d"}, nil)).Files, 1000)
	require.Contains(t, p.ask("GET", "", []string{"d", "after", "zzz"}, nil).body, `"files":[]`)
}

func TestEntries(t *testing.T) {
	t.Parallel()
	p := serve(t)
	require.Equal(t, "directory", decoded[sdk.File](t, p.post("/directory", sdk.MakeDirectory{Path: "d", Mode: "0770"})).Type)
	require.Equal(t, "0770", decoded[sdk.File](t, p.ask("GET", "/stat", []string{"d"}, nil)).Mode)
	decoded[sdk.File](t, p.post("/directory", sdk.MakeDirectory{Path: "d/e/f", Parents: true}))
	decoded[sdk.File](t, p.post("/directory", sdk.MakeDirectory{Path: "d/e/f", Parents: true}))
	p.write("d/file", "content")
	p.write("other", "other")

	moved := decoded[sdk.File](t, p.post("/move", sdk.MoveFile{From: "d/file", To: p.at("moved")}))
	require.Equal(t, []any{"moved", int64(7)}, []any{moved.Name, moved.Size})
	require.Equal(t, 409, p.post("/move", sdk.MoveFile{From: "moved", To: "other"}).status)
	decoded[sdk.File](t, p.post("/move", sdk.MoveFile{From: "moved", To: "other", Overwrite: true}))
	require.Equal(t, "content", p.ask("GET", "/content", []string{"other"}, nil).body)

	decoded[sdk.File](t, p.post("/copy", sdk.MoveFile{From: "other", To: "d/e/copy"}))
	require.Equal(t, 409, p.post("/copy", sdk.MoveFile{From: "other", To: "d/e/copy"}).status)
	require.NoError(t, os.Symlink("other", p.at("d/l")))
	decoded[sdk.File](t, p.post("/copy", sdk.MoveFile{From: "d", To: "d/e/again"}))
	require.Equal(t, "content", p.ask("GET", "/content", []string{"d/e/again/e/copy"}, nil).body)
	require.Equal(t, "other", decoded[sdk.File](t, p.ask("GET", "/stat", []string{"d/e/again/l"}, nil)).Target)
	require.NoDirExists(t, p.at("d/e/again/e/again"), "a copy into itself has an end")
	require.Equal(t, 409, p.post("/copy", sdk.MoveFile{From: "d", To: "d/e/again"}).status)
	decoded[sdk.File](t, p.post("/copy", sdk.MoveFile{From: "d/l", To: "l2"}))
	require.Equal(t, "symlink", decoded[sdk.File](t, p.ask("GET", "/stat", []string{"l2"}, nil)).Type)

	require.Equal(t, 409, p.ask("DELETE", "", []string{"d"}, nil).status)
	require.Equal(t, 204, p.ask("DELETE", "", []string{"l2"}, nil).status)
	require.FileExists(t, p.at("other"))
	require.Equal(t, 204, p.ask("DELETE", "", []string{"d", "recursive", "true"}, nil).status)
	require.NoDirExists(t, p.at("d"))
}

// What the system refuses is said with its status, the path and its words.
func TestErrors(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.write("f", "content")
	p.write("d/in", "")
	require.NoError(t, syscall.Mkfifo(p.at("pipe"), 0o600))
	require.NoError(t, os.Symlink("loop", p.at("loop")))
	none := strings.NewReader
	for name, test := range map[string]struct {
		got    answer
		status int
		says   string
	}{
		"read nothing":        {p.ask("GET", "/content", []string{"x"}, nil), 404, p.at("x") + ": no such file or directory"},
		"read a directory":    {p.ask("GET", "/content", []string{"d"}, nil), 409, p.at("d") + ": is a directory"},
		"read a pipe":         {p.ask("GET", "/content", []string{"pipe"}, nil), 409, p.at("pipe") + ": not a regular file"},
		"read below a file":   {p.ask("GET", "/content", []string{"f/x"}, nil), 409, p.at("f/x") + ": not a directory"},
		"read a loop":         {p.ask("GET", "/content", []string{"loop"}, nil), 409, p.at("loop") + ": too many levels of symbolic links"},
		"write a directory":   {p.ask("PUT", "/content", []string{"d"}, none("")), 409, p.at("d") + ": is a directory"},
		"write a pipe":        {p.ask("PUT", "/content", []string{"pipe"}, none("")), 409, p.at("pipe") + ": not a regular file"},
		"write into nothing":  {p.ask("PUT", "/content", []string{"x/y"}, none("")), 404, p.at("x") + ": no such file or directory"},
		"write below a file":  {p.ask("PUT", "/content", []string{"f/y", "parents", "true"}, none("")), 409, p.at("f") + ": not a directory"},
		"write a device":      {p.ask("PUT", "/content", []string{"/dev/null"}, none("")), 409, "/dev/null: not a regular file"},
		"write, no mode":      {p.ask("PUT", "/content", []string{"x", "mode", "rwx"}, none("")), 422, "write permissions in octal"},
		"write, too long":     {p.ask("PUT", "/content", []string{strings.Repeat("x", 300)}, none("")), 422, "file name too long"},
		"write the root":      {p.ask("PUT", "/content", []string{"/"}, none("")), 422, "/: is the root of all files"},
		"make what is there":  {p.post("/directory", sdk.MakeDirectory{Path: "d"}), 409, p.at("d") + ": file exists"},
		"make over a file":    {p.post("/directory", sdk.MakeDirectory{Path: "f", Parents: true}), 409, p.at("f") + ": file exists"},
		"make in nothing":     {p.post("/directory", sdk.MakeDirectory{Path: "x/y"}), 404, p.at("x") + ": no such file or directory"},
		"move nothing":        {p.post("/move", sdk.MoveFile{From: "x", To: "y"}), 404, p.at("x") + ": no such file or directory"},
		"move into itself":    {p.post("/move", sdk.MoveFile{From: "d", To: "d/e"}), 422, p.at("d/e") + ": invalid argument"},
		"move over a full":    {p.post("/move", sdk.MoveFile{From: "loop", To: "d", Overwrite: true}), 409, p.at("d") + ": "},
		"copy nothing":        {p.post("/copy", sdk.MoveFile{From: "x", To: "y"}), 404, p.at("x") + ": no such file or directory"},
		"copy a pipe":         {p.post("/copy", sdk.MoveFile{From: "pipe", To: "y"}), 409, p.at("pipe") + ": not a regular file"},
		"copy over directory": {p.post("/copy", sdk.MoveFile{From: "f", To: "d", Overwrite: true}), 409, p.at("d") + ": is a directory"},
		"remove nothing":      {p.ask("DELETE", "", []string{"x"}, nil), 404, p.at("x") + ": no such file or directory"},
		"remove all nothing":  {p.ask("DELETE", "", []string{"x", "recursive", "true"}, nil), 404, p.at("x") + ": no such file or directory"},
		"remove the root":     {p.ask("DELETE", "", []string{"/", "recursive", "true"}, nil), 422, "/: is the root of all files"},
		"list a file":         {p.ask("GET", "", []string{"f"}, nil), 409, p.at("f") + ": not a directory"},
		"list nothing":        {p.ask("GET", "", []string{"x"}, nil), 404, p.at("x") + ": no such file or directory"},
		"a tree of a file":    {p.ask("GET", "/tree", []string{"f"}, nil), 409, p.at("f") + ": not a directory"},
		"a tree into nothing": {p.ask("PUT", "/tree", []string{"x"}, none("")), 404, p.at("x") + ": no such file or directory"},
		"no tree":             {p.ask("PUT", "/tree", []string{"d"}, none("not an archive"+strings.Repeat(" ", 1024))), 422, "read archive: archive/tar: invalid tar header"},
		"a read-only place":   {p.ask("PUT", "/content", []string{"/sys/kernel/x"}, none("")), 403, "/sys/kernel/x: "},
		"no request":          {p.ask("POST", "/move", nil, none("{")), 422, "decode request"},
	} {
		require.Equal(t, test.status, test.got.status, "%s: %s", name, test.got.body)
		require.Contains(t, test.got.body, test.says, name)
	}
	left, err := os.ReadDir(p.dir)
	require.NoError(t, err)
	require.Len(t, left, 4, "nothing is left of what was refused")
}

// A tree goes through as it is, and an archive that leaves its directory is refused.
func TestTree(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.write("from/a/b", "content")
	require.NoError(t, os.Symlink("a/b", p.at("from/l")))
	whole := p.ask("GET", "/tree", []string{"from"}, nil)
	require.Equal(t, []any{200, "application/x-tar"}, []any{whole.status, whole.header.Get("Content-Type")})
	padded := whole.body + strings.Repeat("\x00", 100_000)
	require.Equal(t, 204, p.ask("PUT", "/tree", []string{"to/there", "parents", "true"}, strings.NewReader(padded)).status)
	require.Equal(t, "content", p.ask("GET", "/content", []string{"to/there/l"}, nil).body)

	require.NoError(t, os.Symlink(p.at("from"), p.at("to/out")))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "out/a/b", Mode: 0o600}))
	require.NoError(t, w.Close())
	refused := p.ask("PUT", "/tree", []string{"to"}, &b)
	require.Equal(t, 422, refused.status)
	require.Contains(t, refused.body, p.at("to/out/a/b")+": path escapes from parent")
	require.Equal(t, "content", p.ask("GET", "/content", []string{"from/a/b"}, nil).body)
}

func TestContent_watch(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.write("d/old", "")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/files/watch?path=d", nil)
	require.NoError(t, err)
	resp, err := p.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	until := func(want sdk.FileChange) {
		t.Helper()
		for got := (sdk.FileChange{}); got != want; {
			got = sdk.FileChange{}
			require.NoError(t, lines.Decode(&got), "waiting for %v", want)
		}
	}
	until(sdk.FileChange{Path: p.at("d")})
	p.write("d/new", "content")
	until(sdk.FileChange{Name: "new", Operation: "create"})
	until(sdk.FileChange{Name: "new", Operation: "write"})
	decoded[sdk.File](t, p.post("/move", sdk.MoveFile{From: "d/old", To: "moved"}))
	until(sdk.FileChange{Name: "old", Operation: "rename"})
	require.Equal(t, 204, p.ask("DELETE", "", []string{"d", "recursive", "true"}, nil).status)
	until(sdk.FileChange{Name: "new", Operation: "remove"})
	until(sdk.FileChange{Operation: "end"})
	_, err = lines.Token()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 404, p.ask("GET", "/watch", []string{"d"}, nil).status)
	require.Equal(t, 409, p.ask("GET", "/watch", []string{"moved"}, nil).status)
}

// Whatever is put in the place of what is removed or copied: nothing outside of it is touched or read.
func TestEntries_race(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.write("outside/secret", "stolen")
	done := make(chan struct{})
	var swapping sync.WaitGroup
	p.write("in/d/f", "mine")
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(p.at("in/d"), p.at("in/kept"))
			_ = os.Symlink("../outside", p.at("in/d"))
			_ = os.Remove(p.at("in/d"))
			_ = os.MkdirAll(p.at("in/kept"), 0o700)
			_ = os.WriteFile(p.at("in/kept/f"), []byte("mine"), 0o600)
			_ = os.Rename(p.at("in/kept"), p.at("in/d"))
		}
	})
	copied, removed := 0, 0
	for i := range 200 {
		to := fmt.Sprint("copies/", i)
		p.write(to+"/.keep", "")
		if p.post("/copy", sdk.MoveFile{From: "in", To: to, Overwrite: true}).status == http.StatusOK {
			copied++
		}
		if p.ask("DELETE", "", []string{"in/d", "recursive", "true"}, nil).status == http.StatusNoContent {
			removed++
		}
	}
	close(done)
	swapping.Wait()
	require.FileExists(t, p.at("outside/secret"))
	require.Positive(t, copied)
	require.Positive(t, removed)
	require.NoError(t, filepath.WalkDir(p.at("copies"), func(path string, e fs.DirEntry, err error) error {
		require.NotEqual(t, "secret", e.Name(), path)
		return err
	}))
}

// With writers and readers at the same time, each reader has the whole of one content.
func TestContent_readersAndWriters(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.write("f", strings.Repeat("0", 1<<20))
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for j := range 10 {
				content := strings.Repeat(string(rune('A'+i*10+j)), 1<<20)
				if a := p.ask("PUT", "/content", []string{"f"}, strings.NewReader(content)); a.status != 200 {
					t.Error(a.status, a.body)
				}
				got := p.ask("GET", "/content", []string{"f"}, nil).body
				if len(got) < 1<<20 || strings.Trim(got, got[:1]) != "" {
					t.Errorf("%d bytes of two writers", len(got))
				}
			}
		})
	}
	running.Wait()
	left, err := os.ReadDir(p.dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
