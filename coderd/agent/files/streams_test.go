package files_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/agent/files"
	"github.com/prewarm-dev/prewarm/coderd/streams"
)

const large = 64 << 20

func noise() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), large) }

func hashOf(t *testing.T, content io.Reader) string {
	t.Helper()
	sum := sha256.New()
	_, err := io.Copy(sum, content)
	require.NoError(t, err)
	return hex.EncodeToString(sum.Sum(nil))
}

// Over the streams of a tunnel: large files both ways, little is read ahead of a reader that does not read, and a body that is
// refused is not sent.
func TestContent_throughStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, theirs := net.Pipe()
	accepting, err := streams.Accept(theirs)
	require.NoError(t, err)
	agent := &http.Server{Handler: files.Handler(dir), ReadHeaderTimeout: time.Minute}
	go func() { _ = agent.Serve(accepting) }()
	opening, err := streams.Open(ours)
	require.NoError(t, err)
	t.Cleanup(func() { _, _, _ = agent.Close(), opening.Close(), accepting.Close() })
	client := &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return opening.OpenStream() },
		DisableKeepAlives: true, ExpectContinueTimeout: time.Hour,
	}}
	do := func(method, path string, body io.Reader) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://agent/files/content?path="+path, body)
		require.NoError(t, err)
		if body != nil {
			req.Header.Set("Expect", "100-continue")
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	want := hashOf(t, noise())
	require.Equal(t, http.StatusOK, do(http.MethodPut, "a", noise()).StatusCode)
	stuck := do(http.MethodGet, "a", nil)
	_, err = io.ReadFull(stuck.Body, make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, want, hashOf(t, do(http.MethodGet, "a", nil).Body))

	open, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	found := 0
	for _, file := range open {
		if target, _ := os.Readlink(file); target != filepath.Join(dir, "a") {
			continue
		}
		info, err := os.ReadFile(strings.Replace(file, "/fd/", "/fdinfo/", 1))
		if os.IsNotExist(err) {
			continue // that of the reader that has read all
		}
		require.NoError(t, err)
		at, err := strconv.Atoi(strings.Fields(string(info))[1])
		require.NoError(t, err)
		if at < large {
			require.Less(t, at, 2*streams.Window)
			found++
		}
	}
	require.Equal(t, 1, found)

	unsent := reading(func([]byte) (int, error) { t.Error("a body that is refused was read"); return 0, io.EOF })
	require.Equal(t, http.StatusConflict, do(http.MethodPut, ".", unsent).StatusCode)
}

type reading func([]byte) (int, error)

func (r reading) Read(p []byte) (int, error) { return r(p) }
