package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// attached is a terminal's connection to a counter.
type attached struct {
	*websocket.Conn
	*counter
}

// attach takes up a counter's output where it left off.
func attach(ctx context.Context, t *testing.T, c *sdk.Client, name string, to *counter) *attached {
	t.Helper()
	u := strings.Replace(c.URL.String(), "http", "ws", 1) + fmt.Sprintf("/api/v1/workspaces/%s/processes/%s/attach?offset=%d", name, to.id, to.bytes)
	ws, _, err := websocket.Dial(ctx, u, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.Token}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ws.CloseNow() })
	require.NoError(t, ws.Write(ctx, websocket.MessageText, []byte(`{"command":["attach"]}`)))
	return &attached{ws, to}
}

// read reads until the counter has counted further, or the server's last word.
func (a *attached) read(ctx context.Context, t *testing.T, lines int64) (last string) {
	t.Helper()
	for a.lines < lines {
		kind, message, err := a.Read(ctx)
		require.NoError(t, err)
		if kind == websocket.MessageText {
			return string(message)
		}
		_, err = a.counter.Write(message[1:])
		require.NoError(t, err)
	}
	return ""
}

// A replica that drains hands its tunnel over: what is new goes elsewhere. What is connected goes on to the deadline, and then
// closes with a cause; a terminal is attached to again where it left off, and a session that ended with the replica is recorded.
func TestInside_drain(t *testing.T) {
	t.Parallel()
	in := newInside(t, 2, 1, "--drain", "10s")
	name, ctx := in.names[0], t.Context()
	at, other := in.servers[0], in.servers[1]
	in.road.mu.Lock()
	in.road.targets = []string{in.options[0].Listen}
	in.road.mu.Unlock()
	in.road.cut()
	eventually(t, "the tunnel at the first replica", func() bool { n, err := in.holder(name); return err == nil && n == 0 })
	in.road.mu.Lock()
	in.road.targets = append(in.road.targets, in.options[1].Listen)
	in.road.mu.Unlock()

	counter := &counter{}
	p, err := other.Client.StartProcess(ctx, name, sdk.ProcessStart{Shell: counting})
	require.NoError(t, err)
	counter.id = p.ID
	terminal := attach(ctx, t, at.Client, name, counter)
	require.Empty(t, terminal.read(ctx, t, 10))
	_, raw := serveEchoes(t)
	streams := map[string]*sdk.Stream{}
	for from, c := range map[string]*sdk.Client{"here": at.Client, "relayed": other.Client} {
		streams[from], err = c.DialPort(ctx, name, raw)
		require.NoError(t, err)
	}
	echo := func() {
		for from, s := range streams {
			_, err := io.WriteString(s, "well")
			require.NoError(t, err, from)
			_, err = io.ReadFull(s, make([]byte, 4))
			require.NoError(t, err, from)
		}
	}
	echo()

	at.Signal(syscall.SIGTERM)
	eventually(t, "the tunnel at the other replica", func() bool { n, err := in.holder(name); return err == nil && n == 1 })
	before := counter.lines
	require.Empty(t, terminal.read(ctx, t, before+10))
	echo()
	in.c = other.Client
	require.NoError(t, in.command(ctx, 1, 10))
	select {
	case <-at.Done():
		require.Fail(t, "the replica has ended before its deadline")
	default:
	}

	var last struct{ Error string }
	require.NoError(t, json.Unmarshal([]byte(terminal.read(ctx, t, 1<<40)), &last))
	require.Equal(t, "the server is stopping: connect again", last.Error)
	_, _, err = terminal.Read(ctx)
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err), err)
	for from, want := range map[string]sdk.StreamError{
		"here":    {CloseError: websocket.CloseError{Code: websocket.StatusServiceRestart, Reason: "the server is stopping: connect again"}},
		"relayed": {CloseError: websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "the connection into workspace " + name + " was cut: connect again"}},
	} {
		_, err := streams[from].Read(make([]byte, 1))
		closed := &sdk.StreamError{}
		require.ErrorAs(t, err, &closed, from)
		require.Equal(t, want, *closed, from)
	}
	<-at.Done()

	again := attach(ctx, t, other.Client, name, counter)
	require.Empty(t, again.read(ctx, t, counter.lines+10))
	eventually(t, "the ends of all that was open", func() bool {
		log, err := other.Client.Audit(ctx, sdk.AuditFilter{})
		require.NoError(t, err)
		ends := 0
		for _, e := range log.Entries {
			if after, _ := json.Marshal(e.After); e.Action == "session.end" && (strings.Contains(string(after), `"port"`) || strings.Contains(string(after), `"attach"`)) {
				ends++
			}
		}
		return ends == 3
	})
	_, err = other.Client.WriteFile(ctx, name, "stop", strings.NewReader("x"), sdk.FileWrite{Size: 1})
	require.NoError(t, err)
}
