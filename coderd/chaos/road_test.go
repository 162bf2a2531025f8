package chaos_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// road is a TCP proxy that leads each connection to any of some servers that accepts it, and does to it what networks do.
type road struct {
	listener net.Listener

	mu      sync.Mutex
	targets []string
	open    map[net.Conn]struct{}
	cuts    int
	// delay is how long bytes are under way, and lost the part of the pieces that come only after a time-out, with what
	// follows them.
	delay time.Duration
	lost  float64
}

// retransmission is how long a piece takes longer that was lost: a round trip of the slow network, and TCP's least time-out.
const retransmission = 400 * time.Millisecond

// newRoad makes one that leads nowhere yet.
func newRoad(t *testing.T) *road {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &road{listener: listener, open: map[net.Conn]struct{}{}}
	t.Cleanup(func() { _ = listener.Close(); r.cut() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.carry(conn)
		}
	}()
	return r
}

func (r *road) url() string { return "http://" + r.listener.Addr().String() }

// cut ends all connections.
func (r *road) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Close()
		r.cuts++
	}
}

// slow makes the connections from now on, and no others, those of a bad network.
func (r *road) slow(delay time.Duration, lost float64) {
	r.cut()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay, r.lost = delay, lost
}

func (r *road) carry(conn net.Conn) {
	defer conn.Close()
	r.mu.Lock()
	targets, delay, lost := append([]string(nil), r.targets...), r.delay, r.lost
	r.open[conn] = struct{}{}
	r.mu.Unlock()
	defer func() { r.mu.Lock(); delete(r.open, conn); r.mu.Unlock() }()
	rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for _, target := range targets {
		server, err := net.Dial("tcp", target)
		if err != nil {
			continue
		}
		go func() { ferry(server, conn, delay, lost); _ = server.Close(); _ = conn.Close() }()
		ferry(conn, server, delay, lost)
		_ = server.Close()
		return
	}
}

// ferry copies one way. Its queue is what a network holds.
func ferry(to io.Writer, from io.Reader, delay time.Duration, lost float64) {
	if delay == 0 {
		_, _ = io.Copy(to, from)
		return
	}
	type piece struct {
		data []byte
		due  time.Time
	}
	under := make(chan piece, 1024)
	go func() {
		defer close(under)
		for {
			p := piece{data: make([]byte, 16<<10)}
			n, err := from.Read(p.data)
			if p.data, p.due = p.data[:n], time.Now().Add(delay); rand.Float64() < lost {
				p.due = p.due.Add(retransmission)
			}
			under <- p
			if err != nil {
				return
			}
		}
	}()
	broken := false
	for p := range under { // to its end, so that the reader is not held up for ever
		<-time.After(time.Until(p.due))
		if !broken {
			_, err := to.Write(p.data)
			broken = err != nil
		}
	}
}
