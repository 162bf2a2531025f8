package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const (
	// mostHarm is how much more memory whatever an agent or a client does may cost a replica.
	mostHarm = 128 << 20
	// mostEnded is what the streams of a tunnel that have not ended may cost beside that: a buffer of a full window is up to twice as large.
	mostEnded = (streams.Most + 64) * 2 * streams.Window
)

// hostile is what a user made of the agent in their own workspace. It has the instance token, and says what it likes.
type hostile struct {
	t     *testing.T
	c     *sdk.Client // with the instance token
	name  string      // of the workspace
	store *database.Store
	known map[uuid.UUID]bool // tunnels of the workspace
	open  []*websocket.Conn  // what tunnel has opened
}

// tunnel opens one, and returns when requests go through it.
func (h *hostile) tunnel() *websocket.Conn {
	h.t.Helper()
	ws, err := h.c.OpenTunnel(h.t.Context())
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = ws.CloseNow() })
	h.open = append(h.open, ws)
	h.entered()
	return ws
}

// leave ends the tunnels that are open still, and returns when only that of the user's own agent is left.
func (h *hostile) leave(t *testing.T) {
	t.Helper()
	for _, ws := range h.open {
		_ = ws.CloseNow()
	}
	h.open = nil
	eventually(t, "the agent's own tunnel, and no other", func() bool {
		var left int
		err := h.store.Pool.QueryRow(t.Context(), `SELECT count(*) FROM tunnels t JOIN workspaces w ON w.id = t.workspace_id WHERE w.name = $1`, h.name).Scan(&left)
		return err == nil && left == 1
	})
	time.Sleep(lookKept)
}

// lookKept is for how long a request may rely on what the one before had found (docs/SECURITY.md).
const lookKept = 200 * time.Millisecond

// entered waits until a new tunnel is the newest, and no request relies any more on what was found before.
func (h *hostile) entered() {
	h.t.Helper()
	var newest uuid.UUID
	eventually(h.t, "another tunnel", func() bool {
		err := h.store.Pool.QueryRow(h.t.Context(), `SELECT t.id FROM tunnels t JOIN workspaces w ON w.id = t.workspace_id
			WHERE w.name = $1 ORDER BY t.connected_at DESC LIMIT 1`, h.name).Scan(&newest)
		return err == nil && !h.known[newest]
	})
	h.known[newest] = true
	time.Sleep(lookKept)
}

// serve does something with each stream that the server opens, in place of HTTP or in its name. It returns what ends it.
func (h *hostile) serve(do func(net.Conn)) (end func()) {
	h.t.Helper()
	ws, err := h.c.OpenTunnel(h.t.Context())
	require.NoError(h.t, err)
	session, err := streams.Accept(streams.Conn(context.WithoutCancel(h.t.Context()), ws))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = session.Close() })
	go func() {
		for {
			conn, err := session.AcceptStream()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); do(conn) }()
		}
	}()
	h.entered()
	return func() { _ = session.Close() }
}

// answering reads a request, and then does as it likes.
func answering(do func(w *bufio.Writer, r *http.Request)) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			w := bufio.NewWriter(conn)
			do(w, r)
			_ = w.Flush()
			if r.Close || r.Header.Get("Upgrade") != "" {
				return
			}
		}
	}
}

// endless writes until the other side has enough, or n bytes are written.
func endless(w io.Writer, piece string, n int64) {
	many := []byte(strings.Repeat(piece, 1+(32<<10)/len(piece)))
	for written := int64(0); written < n; written += int64(len(many)) {
		if _, err := w.Write(many); err != nil {
			return
		}
	}
}

const (
	twoGiB  = 2 << 30
	poured  = 256 << 20 // of what has no end
	accepts = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
)

// hugeFrame is the header of a frame of a WebSocket that announces 2 GiB. That of a client is masked, with zeros here.
func hugeFrame(masked bool) []byte {
	header := binary.BigEndian.AppendUint64([]byte{0x82, 0x7f}, twoGiB)
	if masked {
		header[1] |= 0x80
		header = append(header, 0, 0, 0, 0)
	}
	return header
}

// acceptOf is what a WebSocket's client wants to hear.
func acceptOf(r *http.Request) string {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// rawWebSocket is a connection after the handshake of a WebSocket, on which anything can be written.
func rawWebSocket(t *testing.T, c *sdk.Client, path string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", c.URL.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET /api/v1%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", path, c.URL.Host, c.Token)
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	return conn, in
}

// An agent that is hostile to its replica costs it little memory, and neighbours nothing; its user gets a clear error.
func TestHostileAgent(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	servers := fleetOn(t, url, 2)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 2)
	alice, bob := users(t, servers[1].URL, owner)("alice", "member"), users(t, servers[0].URL, owner)("bob", "member")
	mine, neighbour := enter(t, alice), enter(t, bob)
	token := read(t, strings.TrimSuffix(home(show(t, owner, mine.name)), "/home")+"/agent/agent-token")
	instance, err := sdk.New(servers[0].URL, token) // alice asks the other replica
	require.NoError(t, err)
	h := &hostile{t: t, c: instance, name: mine.name, store: dbtest.OpenURL(t, url, database.Options{MaxConns: 2}), known: map[uuid.UUID]bool{}}
	h.entered()
	process := func(ctx context.Context) error { _, err := alice.Process(ctx, mine.name, uuid.New()); return err }
	// bounded does something, and shows what it cost.
	bounded := func(name string, most int64, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			memory := e2etest.WatchMemory(t, servers[0].PID(), servers[1].PID())
			do(t)
			output, code := neighbour.run(t.Context(), bob, sdk.ProcessStart{Shell: "echo well"})
			require.Equal(t, []any{"well\n", 0}, []any{string(output), code})
			t.Logf("%d MiB more memory", memory.More(t)>>20)
			require.Less(t, memory.More(t), most)
		})
	}
	harmless := func(name string, do func(t *testing.T)) { bounded(name, mostHarm, do) }
	// serves shows that the user's own agent, which has a tunnel too, is reached when the others have ended.
	serves := func(t *testing.T) {
		t.Helper()
		h.leave(t)
		output, code := mine.run(t.Context(), alice, sdk.ProcessStart{Shell: "echo well"})
		require.Equal(t, []any{"well\n", 0}, []any{string(output), code})
	}
	cut := func(t *testing.T, err error) {
		t.Helper()
		require.Equal(t, http.StatusBadGateway, sdk.StatusOf(err), "%v", err)
		require.ErrorContains(t, err, "the connection into workspace "+mine.name+" was cut")
	}
	unreadable := func(t *testing.T, err error) {
		t.Helper()
		require.Equal(t, http.StatusBadGateway, sdk.StatusOf(err), "%v", err)
		require.ErrorContains(t, err, "the agent of workspace "+mine.name+" gave no answer that can be read")
	}
	for name, test := range map[string]struct {
		answer func(w *bufio.Writer, r *http.Request)
		want   func(t *testing.T, err error)
	}{
		"garbage in place of an answer": {func(w *bufio.Writer, _ *http.Request) { endless(w, "\x00\xff\r\n\r\n", poured) }, cut},
		"a header without end": {func(w *bufio.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\n")
			endless(w, "A: b\r\n", poured)
		}, cut},
		"preliminary answers without end": {func(w *bufio.Writer, _ *http.Request) {
			endless(w, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", poured)
		}, cut},
		"JSON of 1 GiB": {func(w *bufio.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{\"id\":\"")
			endless(w, "x", 1<<30)
		}, unreadable},
		"JSON without end": {func(w *bufio.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			endless(w, "[", poured)
		}, unreadable},
		"a refusal without end": {func(w *bufio.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, "HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{\"detail\":\"")
			endless(w, "x", poured)
		}, func(t *testing.T, err error) {
			t.Helper()
			require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "%v", err)
			require.Less(t, len(err.Error()), 8<<10)
		}},
	} {
		harmless(name, func(t *testing.T) {
			defer h.serve(answering(test.answer))()
			for range 20 {
				test.want(t, process(t.Context()))
			}
		})
	}
	harmless("an end in place of an answer", func(t *testing.T) {
		defer h.serve(func(conn net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(conn)) })()
		cut(t, process(t.Context()))
	})
	harmless("no answer", func(t *testing.T) {
		asked := make(chan bool, 1)
		over := make(chan error, 1)
		defer h.serve(func(conn net.Conn) {
			_, err := http.ReadRequest(bufio.NewReader(conn))
			asked <- true
			if err == nil {
				_, err = io.Copy(io.Discard, conn)
			}
			over <- err
		})()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		require.ErrorIs(t, process(ctx), context.Canceled)
		require.NoError(t, <-over, "the stream ends with its client")
	})
	harmless("a file without end", func(t *testing.T) {
		defer h.serve(answering(func(w *bufio.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			endless(w, "x", 1<<40)
		}))()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		resp := mine.request(ctx, alice, http.MethodGet, "/files/content?path=x", "")
		defer resp.Body.Close()
		_, err := io.CopyN(io.Discard, resp.Body, poured)
		require.NoError(t, err)
	})
	harmless("a message of 2 GiB of a command", func(t *testing.T) {
		defer h.serve(answering(func(w *bufio.Writer, r *http.Request) {
			_, _ = io.WriteString(w, accepts+acceptOf(r)+"\r\n\r\n")
			_, _ = w.Write(hugeFrame(false))
			endless(w, "\x01", twoGiB)
		}))()
		_, err := alice.Exec(t.Context(), mine.name, sdk.ExecRequest{ExecStart: sdk.ExecStart{Command: []string{"true"}}})
		require.ErrorContains(t, err, "the connection")
	})
	harmless("a message of 2 GiB of a port", func(t *testing.T) {
		defer h.serve(answering(func(w *bufio.Writer, r *http.Request) {
			_, _ = io.WriteString(w, accepts+acceptOf(r)+"\r\n\r\n")
			_, _ = w.Write(hugeFrame(false))
			endless(w, "x", twoGiB)
		}))()
		stream, err := alice.DialPort(t.Context(), mine.name, 80)
		require.NoError(t, err)
		defer stream.Cut()
		n, err := io.CopyN(io.Discard, stream, poured)
		require.NoError(t, err)
		require.EqualValues(t, poured, n)
	})
	bounded("data after the end of answers", mostHarm+mostEnded, func(t *testing.T) {
		defer h.serve(answering(func(w *bufio.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
			_ = w.Flush()
			endless(w, "x", streams.Window)
		}))()
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for range 250 { // without the tries again of our client
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, alice.URL.String()+"/api/v1/workspaces/"+mine.name+"/processes/"+uuid.NewString(), nil)
					if err != nil {
						return
					}
					req.Header.Set("Authorization", "Bearer "+alice.Token)
					if resp, err := http.DefaultClient.Do(req); err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
		asking.Wait()
	})
	harmless("a process that runs for ever, and is asked about", func(t *testing.T) {
		var waits atomic.Int64
		defer h.serve(answering(func(w *bufio.Writer, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/wait") {
				waits.Add(1)
			}
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}))()
		_, err := alice.StartProcess(t.Context(), mine.name, sdk.ProcessStart{Shell: "true"})
		require.NoError(t, err)
		eventually(t, "a question", func() bool { return waits.Load() > 0 })
		for range 200 { // ordinary requests, each of which takes longer than a question
			_ = process(t.Context())
		}
		require.Less(t, waits.Load(), int64(20), "the replica asks in a loop")
	})

	// What is no HTTP, nor streams.
	for name, attack := range map[string]func(ctx context.Context, ws *websocket.Conn) error{
		"garbage in place of streams": func(ctx context.Context, ws *websocket.Conn) error {
			garbage := make([]byte, 1<<20)
			_, _ = crand.Read(garbage)
			return ws.Write(ctx, websocket.MessageBinary, garbage)
		},
		"text": func(ctx context.Context, ws *websocket.Conn) error {
			return ws.Write(ctx, websocket.MessageText, []byte("x"))
		},
		"pings": func(ctx context.Context, ws *websocket.Conn) error {
			return ws.Write(ctx, websocket.MessageBinary, bytes.Repeat([]byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 10_000))
		},
		"a message without end": func(ctx context.Context, ws *websocket.Conn) error {
			w, err := ws.Writer(ctx, websocket.MessageBinary)
			if err != nil {
				return err
			}
			endless(w, "\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00", poured) // window updates of no stream
			_, err = w.Write(bytes.Repeat([]byte{9}, 12))
			if err == nil {
				err = w.Close()
			}
			return err
		},
	} {
		harmless(name, func(t *testing.T) {
			ws := h.tunnel()
			for err := error(nil); err == nil; { // until the replica has enough
				err = attack(t.Context(), ws)
			}
			serves(t)
		})
	}
	harmless("streams that nobody asked for", func(t *testing.T) {
		ws := h.tunnel()
		go func() {
			for {
				if _, _, err := ws.Read(t.Context()); err != nil {
					return
				}
			}
		}()
		syn := make([]byte, 0, 12_000)
		for id := range 500_000 {
			syn = append(syn, 0, 1, 0, 1)
			syn = binary.BigEndian.AppendUint32(syn, uint32(2*id+2))
			if syn = append(syn, 0, 0, 0, 0); len(syn) == cap(syn) {
				require.NoError(t, ws.Write(t.Context(), websocket.MessageBinary, syn))
				syn = syn[:0]
			}
		}
	})
	harmless("a frame of 2 GiB of a stream", func(t *testing.T) {
		pour := func(ws *websocket.Conn) {
			for {
				_, frame, err := ws.Read(t.Context())
				if err != nil {
					return
				}
				if len(frame) < 12 || frame[1] != 1 || frame[3]&1 == 0 { // a stream begins
					continue
				}
				answer := append([]byte{0, 0, 0, 2}, frame[4:8]...) // its first data, and that it is taken
				answer = binary.BigEndian.AppendUint32(answer, twoGiB-1)
				w, err := ws.Writer(t.Context(), websocket.MessageBinary)
				if err != nil {
					return
				}
				_, _ = w.Write(answer)
				endless(w, "x", twoGiB)
			}
		}
		eventually(t, "an answer that is not the agent's own, whose tunnel is the newest where it has come again meanwhile", func() bool {
			go pour(h.tunnel())
			resp := mine.request(t.Context(), alice, http.MethodGet, "/processes/"+uuid.NewString(), "")
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusNotFound {
				return false
			}
			require.Equal(t, http.StatusBadGateway, resp.StatusCode)
			return true
		})
		serves(t)
	})
	harmless("a message of 2 GiB of the tunnel", func(t *testing.T) {
		conn, _ := rawWebSocket(t, h.c, "/instance/tunnel")
		h.entered()
		_, err := conn.Write(hugeFrame(true))
		require.NoError(t, err)
		endless(conn, "\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00", poured)
		_, err = conn.Write(bytes.Repeat([]byte{9}, 64<<10)) // no version of streams
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, conn) // until the replica ends it
		serves(t)
	})
}
