package e2e_test

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// way is a TCP way to a server that can be cut: connections end, and new ones are closed at once.
type way struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	cut    bool
	open   map[net.Conn]bool
	again  time.Time // of the first connection after the way was mended
	most   int64     // bytes of an agent, after which a connection is cut; 0 is any number
	cuts   int
}

func newWay(t *testing.T) *way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &way{listener: listener, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go w.carry(conn)
		}
	}()
	return w
}

func (w *way) url() string { return "http://" + w.listener.Addr().String() }

func (w *way) carry(conn net.Conn) {
	defer conn.Close()
	w.mu.Lock()
	if w.cut || w.target == "" {
		w.mu.Unlock()
		return
	}
	if w.again.IsZero() {
		w.again = time.Now()
	}
	target, most := w.target, w.most
	w.open[conn] = true
	w.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		if most > 0 {
			if n, _ := io.CopyN(server, conn, most); n == most {
				w.mu.Lock()
				w.cuts++
				w.mu.Unlock()
				_ = conn.Close()
			}
		} else {
			_, _ = io.Copy(server, conn)
		}
		_ = server.Close()
	}()
	_, _ = io.Copy(conn, server)
	w.mu.Lock()
	delete(w.open, conn)
	w.mu.Unlock()
}

func (w *way) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut, w.again = cut, time.Time{}
	for conn := range w.open {
		_ = conn.Close()
	}
}

// A claim made while the agent's connection is down is the answer to the first question after it is up again.
func TestAgentHearsOfClaimAfterReconnect(t *testing.T) {
	t.Parallel()
	road := newWay(t)
	server := agents(t, fmt.Sprintf(agentTemplate, "5m"), "--access-url", road.url())
	c := server.Client
	road.mu.Lock()
	road.target = c.URL.Host
	road.mu.Unlock()
	w := ready(t, c)

	road.set(true)
	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, w.Name, claim.Name)
	require.Never(t, func() bool { return show(t, c, w.Name).Agent.ClaimSeenAt != nil }, time.Second, 100*time.Millisecond)
	road.set(false)
	eventually(t, "the agent to know of its claim", func() bool { return show(t, c, w.Name).Agent.ClaimSeenAt != nil })

	road.mu.Lock()
	again := road.again
	road.mu.Unlock()
	took := show(t, c, w.Name).Agent.ClaimSeenAt.Sub(again)
	t.Logf("the claim was known %s after the first connection", took.Round(time.Millisecond))
	// 1 s is what is promised; a test on a busy machine has ten.
	require.Less(t, took, 10*time.Second)
	eventually(t, "on_claim", func() bool { return show(t, c, w.Name).Agent.ClaimReadyAt != nil })
}
