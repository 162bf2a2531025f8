package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/agent/files"
	"github.com/prewarm-dev/prewarm/coderd/agent/ports"
	"github.com/prewarm-dev/prewarm/coderd/agent/processes"
	"github.com/prewarm-dev/prewarm/coderd/agent/ssh"
	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/database"
)

const insideConfiguration = `
providers: [{name: enterable, kind: enterable}]
templates:
  - name: inside
    provider: enterable
    agent: {}
    spec: {command: [x]}
    presets: [{name: default}]
`

// enterable hosts agents, by which alone one gets in.
type enterable struct{ bare }

func (enterable) HostsAgent()  {}
func (enterable) TakesTokens() {}

// cutter is the network of an agent, which breaks at one step: a read or a write.
type cutter struct {
	mu     sync.Mutex
	armed  bool
	steps  int  // that are still well
	middle bool // half of what is read or written at the last step passes
	cut    bool
}

func (c *cutter) arm(steps int, middle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.steps, c.middle, c.cut = true, steps, middle, false
}

// disarm says whether the network broke.
func (c *cutter) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	return c.cut
}

// step is how many of n bytes pass, and whether the network breaks then.
func (c *cutter) step(n int) (pass int, broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.armed || c.cut:
		return n, false
	case c.steps > 0:
		c.steps--
		return n, false
	}
	if c.cut = true; c.middle {
		return n / 2, true
	}
	return 0, true
}

type cuttable struct {
	net.Conn
	*cutter
}

func (c cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	pass, broken := c.step(n)
	if broken {
		_ = c.Close()
	}
	if broken && pass == 0 {
		return 0, net.ErrClosed
	}
	return pass, nil
}

func (c cuttable) Write(p []byte) (int, error) {
	pass, broken := c.step(len(p))
	if !broken {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:pass])
	_ = c.Close()
	return n, net.ErrClosed
}

// guest is a claimed workspace, with what an agent serves, behind a network that breaks.
type guest struct {
	*sdk.Client
	t      *testing.T
	name   string
	dir    string
	net    *cutter
	target func() uuid.UUID // of the newest tunnel
	web    int              // a port on which bodies of HTTP requests are echoed
	raw    int              // a port on which bytes are
	serial int

	mu      sync.Mutex
	session *streams.Session
}

// fresh is a name that no other try has.
func (g *guest) fresh() string { g.serial++; return fmt.Sprintf("%d", g.serial) }

// entrances is a server of the API with a place to which agents dial.
type entrances struct {
	*world
	tunnels *tunnel.Service
	dialed  string

	mu     sync.Mutex
	agents []func() // end them
}

func newEntrances(t *testing.T) *entrances {
	t.Helper()
	w := newWorld(t)
	e := &entrances{world: w}
	e.tunnels = tunnel.New(tunnel.Options{
		Store: w.store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(), Hints: w.hints(), InstanceID: uuid.New(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.tunnels.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	registry := provider.NewRegistry(map[string]provider.Factory{
		"enterable": func(json.RawMessage) (provider.Provider, error) { return enterable{}, nil },
	}, database.InTransaction)
	registry.Update([]provider.Row{{Name: "enterable", Kind: "enterable"}})
	w.url = w.serve(api.Options{Providers: registry, Log: slog.Make(), Tunnels: e.tunnels})
	_, err := (&templates.Service{Store: w.store, NewProvider: registry.New}).Apply(ctx, templates.Request{By: w.owner, File: "inside.yaml", Source: insideConfiguration})
	require.NoError(t, err)
	_, err = w.instances.Derive(ctx, "any") // makes the first key
	require.NoError(t, err)
	agents := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(rw, r, nil)
		if err == nil {
			_, _ = e.tunnels.Attach(r.Context(), tunnel.Agent{WorkspaceID: uuid.MustParse(r.URL.Path[1:]), Incarnation: 1, Attempt: 1}, ws)
		}
	}))
	t.Cleanup(func() { e.leave(); agents.Close() })
	e.dialed = agents.URL
	return e
}

// enter makes a claimed workspace with an agent, which opens its tunnel again at once.
func (e *entrances) enter(t *testing.T) *guest {
	t.Helper()
	row := e.workspace("inside", "claimed", "member")
	_, err := e.store.Pool.Exec(t.Context(), `INSERT INTO agents (workspace_id, incarnation, attempt, key_id, heartbeat_timeout_s, created_at)
		SELECT $1, 1, 1, id, 60, now() FROM signing_keys LIMIT 1`, row.ID)
	require.NoError(t, err)
	client := *e.as("member")
	client.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	g := &guest{Client: &client, t: t, name: row.Name, dir: t.TempDir(), net: &cutter{}}
	g.web, g.raw = serveEchoes(t)
	g.target = func() (id uuid.UUID) {
		_ = e.store.Pool.QueryRow(context.Background(), "SELECT id FROM tunnels WHERE workspace_id = $1 ORDER BY connected_at DESC LIMIT 1", row.ID).Scan(&id)
		return id
	}

	log, clock := slog.Make(), quartz.NewReal()
	table := processes.New(processes.Options{Env: os.Environ(), Dir: g.dir, Clock: clock, Log: log, Grace: time.Second})
	sshd, err := ssh.New(table, log)
	require.NoError(t, err)
	mux, content, listening := http.NewServeMux(), files.Handler(table.Dir), ports.Handler(t.Context(), ports.Options{Clock: clock, Log: log})
	mux.Handle("/", table.Handler())
	for path, handler := range map[string]http.Handler{"/files": content, "/ports": listening, "/ssh": sshd.Handler()} {
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	dialer := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return cuttable{conn, g.net}, err
	}}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		for ctx.Err() == nil {
			ws, _, err := websocket.Dial(ctx, e.dialed+"/"+row.ID.String(), &websocket.DialOptions{HTTPClient: dialer})
			if err != nil {
				continue
			}
			session, err := streams.Accept(streams.Conn(context.WithoutCancel(ctx), ws))
			if err != nil {
				continue
			}
			g.mu.Lock()
			g.session = session
			g.mu.Unlock()
			stop := context.AfterFunc(ctx, func() { _ = session.Close() })
			server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
			_ = server.Serve(session)
			_ = server.Close()
			_ = ws.CloseNow()
			stop()
		}
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.agents = append(e.agents, sync.OnceFunc(func() { cancel(); serving.Wait(); table.Close() }))
	g.connected(uuid.Nil)
	return g
}

// connected waits for another tunnel than one.
func (g *guest) connected(than uuid.UUID) {
	g.t.Helper()
	require.Eventually(g.t, func() bool { now := g.target(); return now != uuid.Nil && now != than }, time.Minute, time.Millisecond, "the next tunnel")
}

// streams is how many streams the agent's tunnel carries.
func (g *guest) streams() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.session.NumStreams()
}

// serveEchoes are two programs on ports.
func serveEchoes(t *testing.T) (web, raw int) {
	t.Helper()
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(program.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return program.Listener.Addr().(*net.TCPAddr).Port, l.Addr().(*net.TCPAddr).Port
}

// bound is how long any request may take whose tunnel broke: it waits some seconds for another.
const bound = 20 * time.Second

// Tunnels break at every step of every kind of request, a step being a read or a write of the agent's connection, before it or
// in its middle. Each request is well with the right bytes, or ends with an error soon; the same again is well. No stream, no
// file, no goroutine is left, and no process is started twice. With PREWARM_ROUNDS no step is left out.
func TestTunnelCuts(t *testing.T) {
	t.Parallel()
	e := newEntrances(t)
	t.Run("kinds", func(t *testing.T) {
		for name, prepare := range kinds {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := e.enter(t)
				require.NoError(t, os.WriteFile(filepath.Join(g.dir, "much"), much, 0o600))
				require.NoError(t, os.Mkdir(filepath.Join(g.dir, "tree"), 0o755))
				for i := range 3 {
					require.NoError(t, os.WriteFile(filepath.Join(g.dir, "tree", fmt.Sprint(i)), much[:1000], 0o600))
				}
				g.breakAll(prepare)
			})
		}
	})
	// No other test of this package has tunnels.
	e.none("coderd/agent/", "(*server).relay", "(*server).watchEnd", "sdk.ServeExec", "sdk.Join")
	e.leave()
	e.none("coderd/agent/", "hashicorp/yamux", "tunnel.(*Service).Attach")
}

// leave ends the agents.
func (e *entrances) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, end := range e.agents {
		end()
	}
}

// none waits until no goroutine is in any of these functions.
func (e *entrances) none(functions ...string) {
	e.t.Helper()
	stacks := make([]byte, 16<<20)
	var left []string
	ok := assert.Eventually(e.t, func() bool {
		left = nil
		for _, one := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if slices.ContainsFunc(functions, func(of string) bool { return strings.Contains(one, of) }) {
				left = append(left, one)
			}
		}
		return len(left) == 0
	}, bound, 10*time.Millisecond, "goroutines are left")
	if !ok {
		e.t.Log(strings.Join(left, "\n\n"))
	}
}

func (g *guest) breakAll(prepare func(*guest, context.Context) func(context.Context) error) {
	g.t.Helper()
	skip := 1
	if os.Getenv("PREWARM_ROUNDS") != "" {
		skip = 0
	}
	tried, last, failed, longest := 0, 0, 0, time.Duration(0)
	// Until a request passes untouched, both ways. In the short version the later steps are fewer.
	for steps, whole := 0, 0; whole < 2; steps += 1 + skip*steps/4 {
		whole = 0
		for _, middle := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(g.t.Context()), bound)
			do := prepare(g, ctx)
			before := g.target()
			g.net.arm(steps, middle)
			began := time.Now()
			err := do(ctx)
			cut := g.net.disarm()
			longest = max(longest, time.Since(began))
			where := fmt.Sprintf("step %d, middle %t", steps, middle)
			require.NoError(g.t, ctx.Err(), "%s: it hangs: %v", where, err)
			require.NotErrorIs(g.t, err, errWrong, where)
			if !cut {
				require.NoError(g.t, err, where)
				whole++
			}
			if err != nil {
				failed++
				again, cancel := context.WithTimeout(context.WithoutCancel(g.t.Context()), bound)
				require.NoError(g.t, do(again), "%s: again, after %v", where, err)
				cancel()
			}
			if cut {
				g.connected(before)
			}
			cancel()
		}
		tried, last = tried+2, steps
		require.Less(g.t, steps, 2000)
	}
	require.Eventually(g.t, func() bool { return g.streams() == 0 }, bound, time.Millisecond, "all streams are closed")
	left, err := filepath.Glob(filepath.Join(g.dir, "**", ".prewarm-*"))
	require.NoError(g.t, err)
	require.Empty(g.t, left)
	g.t.Logf("%d cuts within %d steps; %d requests failed, the longest after %s", tried-2, last, failed, longest.Round(time.Millisecond))
}
