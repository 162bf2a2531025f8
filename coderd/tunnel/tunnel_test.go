package tunnel_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/streams"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// place is a replica that agents and other replicas reach.
type place struct {
	*coderdtest.Replica
	id       uuid.UUID
	url      string
	attached chan error // how tunnels ended
}

// start starts a replica. Agents open tunnels at /WORKSPACE/ATTEMPT.
func start(t *testing.T, w *coderdtest.World, c coderdtest.Config) *place {
	t.Helper()
	p := &place{id: uuid.New(), attached: make(chan error, 10)}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	also := c.Parts
	c.Parts = func(parts *replica.Parts) {
		parts.InstanceID, parts.AdvertiseURL = p.id, server.URL
		if also != nil {
			also(parts)
		}
	}
	p.Replica = w.Start(t, c)
	p.Run(p.Tunnels.Run, p.Registered.Run)
	mux.HandleFunc("GET "+tunnel.Path, p.Tunnels.ServeRelay)
	mux.HandleFunc("GET /agent/{workspace}/{attempt}", func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		var attempt int32
		_, _ = fmt.Sscan(r.PathValue("attempt"), &attempt)
		ended, err := p.Tunnels.Attach(r.Context(), tunnel.Agent{
			WorkspaceID: uuid.MustParse(r.PathValue("workspace")), Incarnation: 1, Attempt: attempt,
		}, ws)
		if err == nil {
			<-ended
		}
		p.attached <- err
	})
	return p
}

// claimed is a workspace that is claimed, with an agent that is expected.
func claimed(t *testing.T, w *coderdtest.World, p *place) uuid.UUID {
	t.Helper()
	p.Hints.Nudge(w.Pool(t, "a", 1, 1)...)
	coderdtest.Eventually(t, "a warm pool", func() bool { return w.Warm(t, "a") == 1 })
	got, err := w.Claim(t, p.Replica, "a", claim.Request{})
	require.NoError(t, err)
	_, err = p.Instances.Derive(t.Context(), "any") // makes the first key
	require.NoError(t, err)
	_, err = w.Store.Pool.Exec(t.Context(), `INSERT INTO agents (workspace_id, incarnation, attempt, key_id, heartbeat_timeout_s, created_at)
		SELECT $1, 1, 1, id, 60, now() FROM signing_keys LIMIT 1`, got.Workspace.ID)
	require.NoError(t, err)
	return got.Workspace.ID
}

// agent has a tunnel, and serves its name through it.
func agent(t *testing.T, p *place, workspace uuid.UUID, handler http.Handler) *streams.Session {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), fmt.Sprintf("%s/agent/%s/1", p.url, workspace), nil)
	require.NoError(t, err)
	session, err := streams.Accept(streams.Conn(context.WithoutCancel(t.Context()), ws))
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	go func() { _ = http.Serve(session, handler) }()
	return session
}

// target waits for the row of a tunnel.
func target(t *testing.T, w *coderdtest.World, workspace uuid.UUID) (found tunnel.Target) {
	t.Helper()
	coderdtest.Eventually(t, "the row of the tunnel", func() bool {
		return w.Store.Pool.QueryRow(t.Context(), "SELECT id, replica_id, url FROM tunnels WHERE workspace_id = $1 ORDER BY connected_at DESC",
			workspace).Scan(&found.TunnelID, &found.ReplicaID, &found.URL) == nil
	})
	return found
}

func get(ctx context.Context, p *place, to tunnel.Target, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.TunnelID.String()+path, nil)
	if err != nil {
		return nil, err
	}
	return p.Tunnels.Transport(to).RoundTrip(req)
}

// streaming sends a byte, and nothing more.
var streaming = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "x")
	_ = http.NewResponseController(w).Flush()
	if r.URL.Path == "/endless" {
		<-r.Context().Done()
	}
})

// A tunnel is reached through any replica; with the release its streams end there too, by any replica's release, and also where no
// notification comes.
func TestTunnelEnds(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"notified": false, "deaf": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := coderdtest.NewWorld(t, sim.Behavior{})
			has, other := start(t, w, coderdtest.Config{Deaf: deaf}), start(t, w, coderdtest.Config{})
			workspace := claimed(t, w, has)
			session := agent(t, has, workspace, streaming)
			to := target(t, w, workspace)
			require.Equal(t, has.id, to.ReplicaID)

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, p := range []*place{has, other} {
				resp, err := get(ctx, p, to, "/")
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "x", string(body))
			}
			stream, err := session.OpenStream() // an agent opens none
			if err == nil {
				_, err = io.ReadAll(stream)
			}
			require.Error(t, err)

			resp, err := get(ctx, other, to, "/endless")
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, 1))
			require.NoError(t, err)
			_, err = other.Writer.Release(ctx, workspaces.Actor{UserID: w.Owner, Source: "test"}, workspace)
			require.NoError(t, err)
			began := time.Now()
			_, err = io.ReadAll(resp.Body)
			require.Error(t, err)
			t.Logf("the stream ended %s after the release", time.Since(began).Round(time.Millisecond))
			<-has.attached
			_, err = get(ctx, other, to, "/")
			require.ErrorIs(t, err, tunnel.ErrNone)
			coderdtest.Eventually(t, "the row to be gone", func() bool {
				var n int
				return w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM tunnels").Scan(&n) == nil && n == 0
			})

			// Nor does the token open another.
			ws, _, err := websocket.Dial(ctx, fmt.Sprintf("%s/agent/%s/1", has.url, workspace), nil)
			require.NoError(t, err)
			defer ws.CloseNow()
			require.ErrorIs(t, <-has.attached, tunnel.ErrOver)
		})
	}
}

// Another attempt's token opens nothing, a row that was lost is written again, and rows of replicas that are gone are swept.
func TestTunnelRows(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	p := start(t, w, coderdtest.Config{})
	workspace := claimed(t, w, p)
	ws, _, err := websocket.Dial(t.Context(), fmt.Sprintf("%s/agent/%s/2", p.url, workspace), nil)
	require.NoError(t, err)
	defer ws.CloseNow()
	require.ErrorIs(t, <-p.attached, tunnel.ErrOver)

	agent(t, p, workspace, streaming)
	before := target(t, w, workspace)
	_, err = w.Store.Pool.Exec(t.Context(), "DELETE FROM tunnels")
	require.NoError(t, err)
	require.Equal(t, before, target(t, w, workspace))

	_, err = w.Store.Pool.Exec(t.Context(), `INSERT INTO tunnels SELECT gen_random_uuid(), workspace_id, 1, 1, gen_random_uuid(), '',
		now() - interval '1 minute' FROM tunnels`)
	require.NoError(t, err)
	coderdtest.Eventually(t, "the row of nobody to be swept", func() bool {
		var n int
		return w.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM tunnels").Scan(&n) == nil && n == 1
	})
}

// A replica that stops asks its agents to go, takes no tunnels, and lets what runs go on until it ends.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	p, next := start(t, w, coderdtest.Config{}), start(t, w, coderdtest.Config{})
	workspace := claimed(t, w, p)
	asked := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/", streaming)
	mux.HandleFunc("POST /handover", func(http.ResponseWriter, *http.Request) { asked <- "handover" })
	agent(t, p, workspace, mux)
	old := target(t, w, workspace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resp, err := get(ctx, next, old, "/endless")
	require.NoError(t, err)

	p.Tunnels.Drain(ctx)
	require.Equal(t, "handover", <-asked)
	require.ErrorIs(t, p.Tunnels.Ready(), tunnel.ErrDraining)
	agent(t, next, workspace, streaming)
	coderdtest.Eventually(t, "the newest tunnel to be at the other replica", func() bool { return target(t, w, workspace).ReplicaID == next.id })
	_, err = io.ReadFull(resp.Body, make([]byte, 1))
	require.NoError(t, err)
	p.Stop()
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	resp, err = get(ctx, p, target(t, w, workspace), "/")
	require.Error(t, err, "a replica that has ended goes nowhere")
	require.Nil(t, resp)
	resp, err = get(ctx, next, target(t, w, workspace), "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// Who has no key of the installation gets nowhere, whatever token they send, and who has one gets into tunnels only. Once the
// key is retired, what it opened ends.
func TestRelay_strangers(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	p, other := start(t, w, coderdtest.Config{}), start(t, w, coderdtest.Config{})
	workspace := claimed(t, w, p)
	agent(t, p, workspace, streaming)
	to := target(t, w, workspace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dial := func() *websocket.Conn {
		ws, _, err := websocket.Dial(ctx, p.url+tunnel.Path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer a-user's"}}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = ws.CloseNow() })
		return ws
	}

	ws := dial()
	require.NoError(t, ws.Write(ctx, websocket.MessageBinary, []byte(strings.Repeat("GET / HTTP/1.1\r\n", 100))))
	for err := error(nil); err == nil; { // an alert perhaps, then the end
		_, _, err = ws.Read(ctx)
	}

	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	for name, certificates := range map[string][]tls.Certificate{
		"another key": {{Certificate: [][]byte{der}, PrivateKey: key}}, "no key": nil,
	} {
		conn := tls.Client(streams.Conn(ctx, dial()), &tls.Config{InsecureSkipVerify: true, Certificates: certificates})
		_ = conn.HandshakeContext(ctx) // in TLS 1.3 the client may believe that it is done
		_, _ = conn.Write(to.TunnelID[:])
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err, name)
	}

	// A replica whose address leads to somebody else gives nothing away either.
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		conn := tls.Server(streams.Conn(r.Context(), ws), &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("the stranger was sent something")
		}
	}))
	defer stranger.Close()
	_, err = other.Tunnels.Dial(ctx, tunnel.Target{TunnelID: to.TunnelID, ReplicaID: uuid.New(), URL: stranger.URL})
	require.ErrorContains(t, err, "no key of this installation")

	_, err = other.Tunnels.Dial(ctx, tunnel.Target{TunnelID: uuid.New(), ReplicaID: p.id, URL: p.url})
	require.ErrorIs(t, err, tunnel.ErrNone, "a replica leads into its own tunnels only")
	_, err = other.Tunnels.Dial(ctx, tunnel.Target{TunnelID: to.TunnelID, ReplicaID: p.id})
	require.ErrorIs(t, err, tunnel.ErrNoWay)

	resp, err := get(ctx, other, to, "/endless")
	require.NoError(t, err)
	_, _, err = p.Instances.Rotate(ctx, w.Store, true)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err, "the key was retired")
	coderdtest.Eventually(t, "a relay with the new key", func() bool {
		resp, err := get(ctx, other, to, "/")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil
	})
}

// More streams than a tunnel carries are refused, and those that there are go on.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	p, other := start(t, w, coderdtest.Config{}), start(t, w, coderdtest.Config{})
	workspace := claimed(t, w, p)
	agent(t, p, workspace, streaming)
	to := target(t, w, workspace)
	var open []io.Closer
	for range streams.Most {
		conn, err := p.Tunnels.Dial(t.Context(), to)
		require.NoError(t, err)
		open = append(open, conn)
	}
	for _, from := range []*place{p, other} {
		_, err := from.Tunnels.Dial(t.Context(), to)
		require.ErrorIs(t, err, tunnel.ErrTooMany)
	}
	require.NoError(t, open[0].Close())
	resp, err := get(t.Context(), p, to, "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}
