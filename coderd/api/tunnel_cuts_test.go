package api_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	gossh "golang.org/x/crypto/ssh"

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
			_ = e.tunnels.Attach(r.Context(), tunnel.Agent{WorkspaceID: uuid.MustParse(r.URL.Path[1:]), Incarnation: 1, Attempt: 1}, ws)
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

// errWrong is what no broken network explains.
var errWrong = errors.New("wrong")

func same(what string, got, want []byte) error {
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: %s has %d bytes instead of %d", errWrong, what, len(got), len(want))
	}
	return nil
}

// much is more than a window of a stream holds.
var much = bytes.Repeat([]byte("what goes through a tunnel\n"), 12_000)

// request sends one that the client of the sdk has no method for.
func (g *guest) request(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, g.URL.String()+"/api/v1/workspaces/"+g.name+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.HTTPClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, content)
	}
	return content, err
}

// started is a process whose start leaves a line in a file of its own, to see how often it was started.
func (g *guest) started(shell string, more sdk.ProcessStart) (start sdk.ProcessStart, once func() error) {
	id := uuid.New()
	more.ID, more.Shell = &id, "echo x >>started-"+id.String()+"; "+shell
	return more, func() error {
		lines, err := os.ReadFile(filepath.Join(g.dir, "started-"+id.String()))
		if err != nil || string(lines) != "x\n" {
			return fmt.Errorf("%w: the process was started %d times: %w", errWrong, len(lines)/2, err)
		}
		return nil
	}
}

// begun starts a process while the network is well.
func (g *guest) begun(ctx context.Context, shell string, more sdk.ProcessStart) uuid.UUID {
	start, _ := g.started(shell, more)
	p, err := g.StartProcess(ctx, g.name, start)
	require.NoError(g.t, err)
	return p.ID
}

// kinds are requests of every kind: what each prepares while the network is well, and what it does when it breaks. That is done
// again where it failed.
var kinds = map[string]func(g *guest, ctx context.Context) (do func(context.Context) error){
	"run": func(g *guest, _ context.Context) func(context.Context) error {
		start, once := g.started("printf 'some output\\n'", sdk.ProcessStart{})
		return func(ctx context.Context) error {
			body, _ := json.Marshal(start)
			answer, err := g.request(ctx, http.MethodPost, "/run", body)
			if err != nil {
				return err
			}
			var output []byte
			for lines := json.NewDecoder(bytes.NewReader(answer)); ; {
				var line sdk.ProcessOutput
				if err := lines.Decode(&line); err != nil {
					return fmt.Errorf("output without an end: %w", err)
				}
				if output = append(output, line.Bytes()...); line.ExitCode != nil {
					return errors.Join(same("output", output, []byte("some output\n")), once())
				}
			}
		}
	},
	"start": func(g *guest, _ context.Context) func(context.Context) error {
		start, once := g.started("", sdk.ProcessStart{})
		return func(ctx context.Context) error {
			p, err := g.StartProcess(ctx, g.name, start)
			if err != nil {
				return err
			}
			if _, err = g.AwaitProcess(ctx, g.name, p.ID); err != nil {
				return err
			}
			return once()
		}
	},
	"output": func(g *guest, ctx context.Context) func(context.Context) error {
		id := g.begun(ctx, "cat much", sdk.ProcessStart{})
		var got []byte
		return func(ctx context.Context) error {
			_, err := g.FollowProcess(ctx, g.name, id, int64(len(got)), func(o sdk.ProcessOutput) error {
				if o.Offset != int64(len(got)) || o.Cut > 0 {
					return fmt.Errorf("%w: offset %d after %d", errWrong, o.Offset, len(got))
				}
				got = append(got, o.Bytes()...)
				return nil
			})
			if err != nil {
				return err
			}
			return same("output", got, much)
		}
	},
	"attach": func(g *guest, ctx context.Context) func(context.Context) error {
		id := g.begun(ctx, "cat much", sdk.ProcessStart{})
		var got []byte
		return func(ctx context.Context) error {
			u := fmt.Sprintf("%s/api/v1/workspaces/%s/processes/%s/attach?offset=%d", g.URL, g.name, id, len(got))
			ws, _, err := websocket.Dial(ctx, u, &websocket.DialOptions{
				HTTPClient: g.HTTPClient, HTTPHeader: http.Header{"Authorization": {"Bearer " + g.Token}},
			})
			if err != nil {
				return err
			}
			defer func() { _ = ws.CloseNow() }()
			if err := ws.Write(ctx, websocket.MessageText, []byte(`{"command":["attach"]}`)); err != nil {
				return err
			}
			for {
				kind, message, err := ws.Read(ctx)
				if err != nil {
					return fmt.Errorf("%w: closed without a last word: %w", errWrong, err)
				}
				if kind == websocket.MessageBinary {
					got = append(got, message[1:]...)
					continue
				}
				var end struct {
					ExitCode *int `json:"exit_code"`
					Error    string
				}
				if err := json.Unmarshal(message, &end); err != nil {
					return fmt.Errorf("%w: %w", errWrong, err)
				}
				if end.ExitCode == nil {
					_, _, err := ws.Read(ctx)
					return fmt.Errorf("%s: %w", end.Error, err)
				}
				return same("output", got, much)
			}
		}
	},
	"stdin": func(g *guest, ctx context.Context) func(context.Context) error {
		id, used := g.begun(ctx, "cat", sdk.ProcessStart{Stdin: true}), false
		return func(ctx context.Context) error {
			if used { // what was written may have been read
				_ = g.SignalProcess(ctx, g.name, id, "KILL")
				id = g.begun(ctx, "cat", sdk.ProcessStart{Stdin: true})
			}
			used = true
			if err := g.WriteProcess(ctx, g.name, id, strings.NewReader("some input"), true); err != nil {
				return err
			}
			var got []byte
			_, err := g.FollowProcess(ctx, g.name, id, 0, func(o sdk.ProcessOutput) error { got = append(got, o.Bytes()...); return nil })
			if err != nil {
				return err
			}
			return same("output", got, []byte("some input"))
		}
	},
	"signal": func(g *guest, ctx context.Context) func(context.Context) error {
		id := g.begun(ctx, "exec sleep 1000", sdk.ProcessStart{})
		return func(ctx context.Context) error {
			err := g.SignalProcess(ctx, g.name, id, "KILL")
			if err != nil && sdk.StatusOf(err) != http.StatusConflict { // it has ended, by the signal whose answer was lost
				return err
			}
			p, err := g.AwaitProcess(ctx, g.name, id)
			if err == nil && (p.ExitCode == nil || *p.ExitCode != 137) {
				return fmt.Errorf("%w: exit code %v", errWrong, p.ExitCode)
			}
			return err
		}
	},
	"exec": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			var out bytes.Buffer
			code, err := g.Exec(ctx, g.name, sdk.ExecRequest{
				ExecStart: sdk.ExecStart{Command: []string{"sh", "-c", "cat; exit 7"}}, Stdin: strings.NewReader("some input"), Stdout: &out,
			})
			if err == nil && code != 7 {
				return fmt.Errorf("%w: exit code %d", errWrong, code)
			}
			if err != nil {
				return err
			}
			return same("output", out.Bytes(), []byte("some input"))
		}
	},
	"write file": func(g *guest, _ context.Context) func(context.Context) error {
		name := "written-" + g.fresh()
		return func(ctx context.Context) error {
			_, err := g.WriteFile(ctx, g.name, name, bytes.NewReader(much), sdk.FileWrite{Size: int64(len(much))})
			content, missing := os.ReadFile(filepath.Join(g.dir, name))
			if err != nil && missing != nil {
				return err
			}
			return errors.Join(err, same(name, content, much)) // all of it, or nothing
		}
	},
	"read file": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			content, _, err := g.ReadFile(ctx, g.name, "much")
			if err != nil {
				return err
			}
			defer content.Close()
			got, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			return same("file", got, much)
		}
	},
	"list files": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			list, err := g.Files(ctx, g.name, "tree", "", 0)
			if err == nil && len(list.Files) != 3 {
				return fmt.Errorf("%w: %d files", errWrong, len(list.Files))
			}
			return err
		}
	},
	"read tree": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			archive, err := g.ReadTree(ctx, g.name, "tree")
			if err != nil {
				return err
			}
			defer archive.Close()
			n := 0
			for entries := tar.NewReader(archive); ; {
				h, err := entries.Next()
				if errors.Is(err, io.EOF) {
					_, err = io.Copy(io.Discard, archive)
					if err == nil && n != 3 {
						return fmt.Errorf("%w: %d files", errWrong, n)
					}
					return err
				}
				if err != nil {
					return err
				}
				if h.Typeflag != tar.TypeReg {
					continue
				}
				got, err := io.ReadAll(entries)
				if err != nil {
					return err
				}
				if err := same(h.Name, got, much[:1000]); err != nil {
					return err
				}
				n++
			}
		}
	},
	"write tree": func(g *guest, _ context.Context) func(context.Context) error {
		dir := "unpacked-" + g.fresh()
		return func(ctx context.Context) error {
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for i := range 3 {
				_ = w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Mode: 0o644, Size: int64(len(much))})
				_, _ = w.Write(much)
			}
			_ = w.Close()
			if err := g.WriteTree(ctx, g.name, dir, &archive, true); err != nil {
				return err
			}
			for i := range 3 {
				content, err := os.ReadFile(filepath.Join(g.dir, dir, fmt.Sprint(i)))
				if err != nil {
					return fmt.Errorf("%w: %w", errWrong, err)
				}
				if err := same("file", content, much); err != nil {
					return err
				}
			}
			return nil
		}
	},
	"port over HTTP": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			got, err := g.request(ctx, http.MethodPost, fmt.Sprintf("/ports/%d/http/", g.web), much)
			if err != nil {
				return err
			}
			return same("answer", got, much)
		}
	},
	"port": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			stream, err := g.DialPort(ctx, g.name, g.raw)
			if err != nil {
				return err
			}
			defer stream.Cut()
			defer context.AfterFunc(ctx, stream.Cut)()
			go func() { _, _ = stream.Write(much); _ = stream.CloseWrite() }()
			got, err := io.ReadAll(stream)
			if err != nil {
				return err
			}
			return same("answer", got, much)
		}
	},
	"ssh": func(g *guest, _ context.Context) func(context.Context) error {
		return func(ctx context.Context) error {
			stream, err := g.DialSSH(ctx, g.name)
			if err != nil {
				return err
			}
			defer stream.Cut()
			defer context.AfterFunc(ctx, stream.Cut)()
			conn, channels, requests, err := gossh.NewClientConn(stream, "workspace", &gossh.ClientConfig{
				User: sdk.SSHUser, HostKeyCallback: gossh.InsecureIgnoreHostKey(), // it is compared elsewhere
			})
			if err != nil {
				return err
			}
			client := gossh.NewClient(conn, channels, requests)
			defer client.Close()
			session, err := client.NewSession()
			if err != nil {
				return err
			}
			got, err := session.Output("printf output")
			if err != nil {
				return err
			}
			return same("output", got, []byte("output"))
		}
	},
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
