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

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
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

// drain is a workspace with its tunnel at a replica that drains when it is asked to stop. A terminal reads a counter there, and
// connections to a port go on, one through each replica.
type drain struct {
	*inside
	name      string
	at, other *e2etest.Server
	counter   *counter
	terminal  *attached
	streams   map[string]*sdk.Stream
}

func newDrain(t *testing.T, lasting string) *drain {
	t.Helper()
	d := &drain{inside: newInside(t, 2, 1), counter: &counter{}, streams: map[string]*sdk.Stream{}}
	d.name = d.names[0]
	d.kill(0)
	d.options[0].Args = append(d.options[0].Args, "--drain", lasting)
	require.NoError(t, d.revive(0))
	d.kill(1) // so that the tunnel that answers is at the other one
	d.c = d.servers[0].Client
	require.NoError(t, d.command(t.Context(), 0, 10))
	require.NoError(t, d.revive(1))
	d.at, d.other = d.servers[0], d.servers[1]

	ctx := t.Context()
	p, err := d.other.Client.StartProcess(ctx, d.name, sdk.ProcessStart{Shell: counting})
	require.NoError(t, err)
	d.counter.id = p.ID
	d.terminal = attach(ctx, t, d.at.Client, d.name, d.counter)
	require.Empty(t, d.terminal.read(ctx, t, 10))
	_, raw := serveEchoes(t)
	for from, c := range map[string]*sdk.Client{"here": d.at.Client, "relayed": d.other.Client} {
		d.streams[from], err = c.DialPort(ctx, d.name, raw)
		require.NoError(t, err)
	}
	d.echo()
	return d
}

// echo shows that the connections to the port go on.
func (d *drain) echo() {
	d.t.Helper()
	for from, s := range d.streams {
		_, err := io.WriteString(s, "well")
		require.NoError(d.t, err, from)
		_, err = io.ReadFull(s, make([]byte, 4))
		require.NoError(d.t, err, from)
	}
}

// again attaches to the counter at the other replica, where it left off, and stops it.
func (d *drain) again() {
	d.t.Helper()
	ctx := d.t.Context()
	require.Empty(d.t, attach(ctx, d.t, d.other.Client, d.name, d.counter).read(ctx, d.t, d.counter.lines+10))
	_, err := d.other.Client.WriteFile(ctx, d.name, "stop", strings.NewReader("x"), sdk.FileWrite{Size: 1})
	require.NoError(d.t, err)
}

// A replica that drains hands its tunnel over: what is new goes elsewhere, and what is connected goes on.
func TestInside_drain(t *testing.T) {
	t.Parallel()
	d := newDrain(t, "1h")
	d.road.mu.Lock()
	d.road.targets = []string{d.options[1].Listen} // as a load balancer does with a replica that is not ready
	d.road.mu.Unlock()
	d.at.Signal(syscall.SIGTERM)
	eventually(t, "the tunnel at the other replica", func() bool { at, err := d.holder(d.name); return err == nil && at == 1 })
	require.Empty(t, d.terminal.read(t.Context(), t, d.counter.lines+10))
	d.echo()
	d.c = d.other.Client
	require.NoError(t, d.command(t.Context(), 1, 10))
	select {
	case <-d.at.Done():
		require.Fail(t, "the replica has ended before its deadline")
	default:
	}
	d.at.Kill()
	d.again()
}

// At the deadline of a drain what is connected closes with a cause. A terminal is attached to again where it left off, and a
// session that ended with the replica is recorded.
func TestInside_drained(t *testing.T) {
	t.Parallel()
	d := newDrain(t, "1s")
	ctx := t.Context()
	d.at.Signal(syscall.SIGTERM)
	var last struct{ Error string }
	require.NoError(t, json.Unmarshal([]byte(d.terminal.read(ctx, t, 1<<40)), &last))
	require.Equal(t, "the server is stopping: connect again", last.Error)
	_, _, err := d.terminal.Read(ctx)
	require.Equal(t, websocket.StatusServiceRestart, websocket.CloseStatus(err), err)
	for from, want := range map[string]sdk.StreamError{
		"here":    {CloseError: websocket.CloseError{Code: websocket.StatusServiceRestart, Reason: "the server is stopping: connect again"}},
		"relayed": {CloseError: websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "the connection into workspace " + d.name + " was cut: connect again"}},
	} {
		_, err := d.streams[from].Read(make([]byte, 1))
		closed := &sdk.StreamError{}
		require.ErrorAs(t, err, &closed, from)
		require.Equal(t, want, *closed, from)
	}
	<-d.at.Done()
	eventually(t, "the ends of all that was open", func() bool {
		log, err := d.other.Client.Audit(ctx, sdk.AuditFilter{})
		require.NoError(t, err)
		ends := 0
		for _, e := range log.Entries {
			if after, _ := json.Marshal(e.After); e.Action == "session.end" && (strings.Contains(string(after), `"port"`) || strings.Contains(string(after), `"attach"`)) {
				ends++
			}
		}
		return ends == 3
	})
	d.again()
}
