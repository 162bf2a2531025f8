package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const large = 64 << 20

// noise is the same bytes each time.
func noise() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), large) }

func hashOf(t *testing.T, content io.Reader) string {
	t.Helper()
	sum := sha256.New()
	_, err := io.Copy(sum, content)
	require.NoError(t, err)
	return hex.EncodeToString(sum.Sum(nil))
}

// memory is a line of the status of a process, in bytes.
func memory(t *testing.T, pid int, line string) int {
	t.Helper()
	_, rest, ok := strings.Cut(read(t, fmt.Sprintf("/proc/%d/status", pid)), line+":")
	require.True(t, ok)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib << 10
}

// Files of any size both ways, through the replica that has the tunnel and through the other one, in constant memory.
func TestFiles(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	clients := []*sdk.Client{servers[0].Client, servers[1].Client}
	apply(t.Context(), t, clients[0], enterable, 1)
	e := enter(t, clients...)
	ctx, want := t.Context(), hashOf(t, noise())

	before := map[*e2etest.Server]int{}
	for _, s := range servers {
		require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID()), []byte("5"), 0)) // resets its peak
		before[s] = memory(t, s.PID(), "VmRSS")
	}
	for i, c := range clients {
		name := fmt.Sprintf("dir/private-%d", i)
		made, err := c.WriteFile(ctx, e.name, name, noise(), sdk.FileWrite{Size: []int64{large, -1}[i], Parents: true})
		require.NoError(t, err)
		require.Equal(t, int64(large), made.Size)
		output, code := e.run(ctx, c, sdk.ProcessStart{Command: []string{"sha256sum", name}})
		require.Zero(t, code)
		require.Equal(t, want, strings.Fields(string(output))[0])
		content, size, err := e.clients[1-i].ReadFile(ctx, e.name, name)
		require.NoError(t, err)
		require.Equal(t, int64(large), size)
		require.Equal(t, want, hashOf(t, content))
		require.NoError(t, content.Close())
	}
	for s, was := range before {
		require.Less(t, memory(t, s.PID(), "VmHWM")-was, large/2, "%s held a file", s.Replica)
	}

	// Whole trees, to the byte.
	archive, err := e.client().ReadTree(ctx, e.name, "dir")
	require.NoError(t, err)
	require.NoError(t, e.client().WriteTree(ctx, e.name, "again", archive, true))
	require.NoError(t, archive.Close())
	output, code := e.run(ctx, e.client(), sdk.ProcessStart{Shell: "cmp dir/private-0 again/private-0 && cmp dir/private-1 again/private-1 && ls again"})
	require.Equal(t, "private-0\nprivate-1\n", string(output))
	require.Zero(t, code)

	// What else there is, and what the system refuses.
	for _, c := range clients {
		_, err = c.MakeDirectory(ctx, e.name, sdk.MakeDirectory{Path: "made"})
		require.NoError(t, err)
		_, err = c.MakeDirectory(ctx, e.name, sdk.MakeDirectory{Path: "made"})
		require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
		require.ErrorContains(t, err, home(show(t, c, e.name))+"/made: file exists")
		_, err = c.CopyFile(ctx, e.name, sdk.MoveFile{From: "dir", To: "made/copy"})
		require.NoError(t, err)
		_, err = c.MoveFile(ctx, e.name, sdk.MoveFile{From: "made/copy", To: "made/moved"})
		require.NoError(t, err)
		list, err := c.Files(ctx, e.name, "made", "", 0)
		require.NoError(t, err)
		require.Len(t, list.Files, 1)
		require.Equal(t, "moved", list.Files[0].Name)
		file, err := c.File(ctx, e.name, "made/moved/private-0", false)
		require.NoError(t, err)
		require.Equal(t, int64(large), file.Size)
		require.Equal(t, http.StatusConflict, sdk.StatusOf(c.RemoveFile(ctx, e.name, "made", false)))
		require.NoError(t, c.RemoveFile(ctx, e.name, "made", true))
		_, err = c.File(ctx, e.name, "made", false)
		require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
		_, _, err = c.ReadFile(ctx, e.name, "none")
		require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
		_, err = c.WriteFile(ctx, e.name, "dir", noise(), sdk.FileWrite{Size: large}) // refused before its body is sent
		require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "%v", err)
		for range 20 { // refused in the middle of its body
			err = c.WriteTree(ctx, e.name, "dir", noise(), false)
			require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%v", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, servers[1].URL+"/api/v1/workspaces/"+e.name+"/files/content?path=dir/private-0", nil)
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + clients[1].Token}, "Range": {"bytes=1000-1999"}}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	part, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	all, err := io.ReadAll(io.LimitReader(noise(), 2000))
	require.NoError(t, err)
	require.Equal(t, http.StatusPartialContent, resp.StatusCode)
	require.True(t, bytes.Equal(all[1000:], part))
	require.Equal(t, fmt.Sprintf("bytes 1000-1999/%d", large), resp.Header.Get("Content-Range"))
	require.Equal(t, `attachment; filename=private-0`, resp.Header.Get("Content-Disposition"))

	slowReader(t, e, servers[0])

	eventually(t, "the sessions in the audit log", func() bool {
		log, err := clients[0].Audit(ctx, sdk.AuditFilter{})
		require.NoError(t, err)
		raw, err := json.Marshal(log)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "private")
		return strings.Contains(string(raw), `"direction":"upload"`) && strings.Contains(string(raw), `"direction":"download"`)
	})
}

// slowReader: of a file that somebody asks for and does not read little is held, while others are read.
func slowReader(t *testing.T, e entered, s *e2etest.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Client.URL.Host)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /api/v1/workspaces/%s/files/content?path=dir/private-0 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
		e.name, s.Client.URL.Host, s.Client.Token)
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	content, _, err := e.client().ReadFile(t.Context(), e.name, "dir/private-1")
	require.NoError(t, err)
	require.Equal(t, hashOf(t, noise()), hashOf(t, content))
	require.NoError(t, content.Close())
	path := filepath.Join(home(show(t, e.client(), e.name)), "dir", "private-0")
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		if target, _ := os.Readlink(file); target != path {
			continue
		}
		info, err := os.ReadFile(strings.Replace(file, "/fd/", "/fdinfo/", 1))
		require.NoError(t, err)
		at, err := strconv.Atoi(strings.Fields(string(info))[1])
		require.NoError(t, err)
		require.Less(t, at, 16<<20, "bytes that are read ahead of a reader that does not read; the system's buffers are most of it")
		found++
	}
	require.Positive(t, found, "the agent has the file open")
}

// Who is not the claim's user has no part in its files, and after the release nobody has.
func TestFiles_strangers(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 1)
	as := users(t, servers[1].URL, owner)
	alice := as("alice", "member")
	e := enter(t, alice)
	write := func(c *sdk.Client) error {
		_, err := c.WriteFile(t.Context(), e.name, "f", strings.NewReader("mine"), sdk.FileWrite{Size: 4})
		return err
	}
	require.NoError(t, write(alice))
	refused := func(who string, c *sdk.Client, statuses ...int) {
		t.Helper()
		_, _, readErr := c.ReadFile(t.Context(), e.name, "f")
		_, treeErr := c.ReadTree(t.Context(), e.name, "")
		_, listErr := c.Files(t.Context(), e.name, "", "", 0)
		for _, err := range []error{
			write(c), readErr, treeErr, listErr, c.RemoveFile(t.Context(), e.name, "f", false),
			c.WriteTree(t.Context(), e.name, "", strings.NewReader(""), false),
		} {
			require.Contains(t, statuses, sdk.StatusOf(err), "%s: %v", who, err)
		}
	}
	refused("another member", as("bob", "member"), http.StatusNotFound)
	refused("an auditor", as("eve", "auditor"), http.StatusForbidden)
	refused("the owner", owner, http.StatusNotFound)

	// An upload that is under way ends with the release, and so does a download.
	r, w := io.Pipe()
	uploaded := make(chan error, 1)
	go func() {
		_, err := alice.WriteFile(t.Context(), e.name, "f", r, sdk.FileWrite{Size: -1})
		uploaded <- err
	}()
	_, err := w.Write([]byte("begun")) // the agent has asked for it
	require.NoError(t, err)
	_, err = alice.ReleaseWorkspace(t.Context(), e.name)
	require.NoError(t, err)
	require.Error(t, <-uploaded)
	_ = w.Close()
	refused("who had released it", alice, http.StatusNotFound, http.StatusConflict)
}
