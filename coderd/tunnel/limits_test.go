package tunnel_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
)

// limited is a replica with limits, and a claimed workspace whose agent has a tunnel to it.
func limited(t *testing.T, limits tunnel.Limits, handler http.Handler) (*place, tunnel.Target) {
	t.Helper()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	p := start(t, w, coderdtest.Config{Parts: func(parts *replica.Parts) { parts.Streams = limits }})
	workspace := claimed(t, w, p)
	agent(t, p, workspace, handler)
	to := target(t, w, workspace)
	to.WorkspaceID, to.UserID = workspace, uuid.New()
	return p, to
}

// A user has so many streams and no more, into whichever workspaces; others have theirs, and one that is closed makes room.
func TestLimits_streamsOfOneUser(t *testing.T) {
	t.Parallel()
	p, to := limited(t, tunnel.Limits{UserStreams: 3}, streaming)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var open []*http.Response
	for range 3 {
		resp, err := get(ctx, p, to, "/endless")
		require.NoError(t, err)
		defer resp.Body.Close()
		open = append(open, resp)
	}
	_, err := get(ctx, p, to, "/")
	require.ErrorIs(t, err, tunnel.ErrTooMany)
	require.ErrorContains(t, err, "you have 3 streams into workspaces open at this server, and nobody may have more: close some")
	elsewhere := to
	elsewhere.WorkspaceID = uuid.New()
	_, err = get(ctx, p, elsewhere, "/")
	require.ErrorIs(t, err, tunnel.ErrTooMany)

	other := to
	other.UserID = uuid.New()
	resp, err := get(ctx, p, other, "/")
	require.NoError(t, err)
	_ = resp.Body.Close()

	_ = open[0].Body.Close()
	coderdtest.Eventually(t, "room for another", func() bool {
		resp, err := get(ctx, p, to, "/")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
}

// bulk sends and takes as much as there is, and echoes what comes at /echo.
var bulk = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/down":
		for block := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	case "/up":
		_, _ = io.Copy(io.Discard, r.Body)
	case "/echo":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	}
})

// carried counts what is read of it, or read from it.
type carried struct {
	io.Reader
	bytes *atomic.Int64
}

func (c carried) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The rate is that of all streams of a workspace together, whoever's they are: they cannot be faster than that.
func TestLimits_rate(t *testing.T) {
	t.Parallel()
	const rate, each = 2 << 20, 1 << 20
	p, to := limited(t, tunnel.Limits{WorkspaceRate: rate}, bulk)
	began := time.Now()
	var eg errgroup.Group
	for range 2 {
		to := to
		to.UserID = uuid.New()
		eg.Go(func() error {
			resp, err := get(t.Context(), p, to, "/down")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.CopyN(io.Discard, resp.Body, each)
			return err
		})
	}
	require.NoError(t, eg.Wait())
	const least = time.Second * (2*each - rate/20) / rate
	require.GreaterOrEqual(t, time.Since(began), least)
}

// Four downloads and four uploads as fast as they may do not starve a terminal: while a keystroke goes there and its echo comes back,
// they pass a few pieces each. The rate is so low that it is the limit who decides, and not how soon the machine runs a reader.
func TestFair(t *testing.T) {
	t.Parallel()
	const streams, strokes, rate = 8, 20, 1 << 20
	const piece = rate / 20 / 4
	p, to := limited(t, tunnel.Limits{UserRate: rate, WorkspaceRate: rate}, bulk)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var passed atomic.Int64
	var eg errgroup.Group
	defer func() { cancel(); _ = eg.Wait() }()
	for i := range streams {
		eg.Go(func() error {
			method, path, body := http.MethodGet, "/down", io.Reader(nil)
			if i%2 == 1 {
				method, path, body = http.MethodPost, "/up", carried{zeros{}, &passed}
			}
			req, err := http.NewRequestWithContext(ctx, method, "http://"+to.TunnelID.String()+path, body)
			if err != nil {
				return err
			}
			resp, err := p.Tunnels.Transport(to).RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, carried{resp.Body, &passed})
			return err
		})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.TunnelID.String()+"/echo", nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := p.Tunnels.Transport(to).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	terminal, ok := resp.Body.(io.ReadWriter)
	require.True(t, ok)
	coderdtest.Eventually(t, "the transfers to be under way", func() bool { return passed.Load() > 2*streams*piece })

	var meanwhile []int64
	var took []time.Duration
	for range strokes {
		before, began := passed.Load(), time.Now()
		_, err := terminal.Write([]byte("k"))
		require.NoError(t, err)
		_, err = io.ReadFull(terminal, make([]byte, 1))
		require.NoError(t, err)
		meanwhile, took = append(meanwhile, passed.Load()-before), append(took, time.Since(began))
	}
	slices.Sort(meanwhile)
	slices.Sort(took)
	t.Logf("echo: p50 %v; meanwhile the others passed: p50 %d KiB, most %d KiB", took[strokes/2], meanwhile[strokes/2]>>10, meanwhile[strokes-1]>>10)
	// A keystroke and its echo wait for one piece of each other stream; as much again may be on its way to the reader. Their windows
	// have five times as much.
	require.LessOrEqual(t, meanwhile[strokes/2], int64(2*2*streams*piece))
}
