package chaos_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const enterable = `
templates:
  - name: inside
    provider: local
    boot_timeout: 2m
    agent: {heartbeat_timeout: 5m}
    spec: {command: [sleep, infinity]}
    presets: [{name: default, prebuilds: {instances: %d}}]
`

// mostMemory is what a file of any size, or any number of commands, may cost an agent or a replica.
const mostMemory = 64 << 20

// inside are replicas, some claimed workspaces, and a road that leads each request and each tunnel to any replica.
type inside struct {
	t       *testing.T
	road    *road
	c       *sdk.Client // by the road
	names   []string
	store   *database.Store
	options []e2etest.Options

	mu      sync.Mutex
	servers []*e2etest.Server
	kills   atomic.Int64
}

func newInside(t *testing.T, replicas, workspaces int, args ...string) *inside {
	t.Helper()
	dbURL, dir := dbtest.URL(t), public(t)
	in := &inside{t: t, road: newRoad(t)}
	for i := range replicas {
		o := e2etest.Options{
			PostgresURL: dbURL, Replica: fmt.Sprintf("inside-%d", i), Listen: freeAddress(t), Tick: time.Second,
			DataDir: filepath.Join(dir, strconv.Itoa(i)), Args: append([]string{"--access-url", in.road.url()}, args...),
		}
		require.NoError(t, os.Mkdir(o.DataDir, 0o755))
		in.options = append(in.options, o)
		in.servers = append(in.servers, e2etest.Start(t, o))
		in.road.mu.Lock()
		in.road.targets = append(in.road.targets, o.Listen)
		in.road.mu.Unlock()
	}
	c, err := sdk.New(in.road.url(), in.servers[0].Client.Token)
	require.NoError(t, err)
	c.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // each request goes its own way
	in.c, in.store = c, openStore(t, dbURL)
	apply(t, in.servers[0].Client, fmt.Sprintf(enterable, workspaces))
	for range workspaces {
		claim, err := in.servers[0].Client.Claim(t.Context(), sdk.ClaimRequest{Template: "inside", Preset: "default", Mode: "prefer", Wait: "1m"})
		require.NoError(t, err)
		in.names = append(in.names, claim.Name)
	}
	return in
}

// holder is the replica that has the tunnel of a workspace.
func (in *inside) holder(name string) (int, error) {
	var replica string
	err := in.store.Pool.QueryRow(context.Background(), `SELECT r.name FROM tunnels t JOIN replicas r ON r.instance_id = t.replica_id
		JOIN workspaces w ON w.id = t.workspace_id WHERE w.name = $1 ORDER BY t.connected_at DESC LIMIT 1`, name).Scan(&replica)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimPrefix(replica, "inside-"))
}

// kill kills a replica. revive starts it again.
func (in *inside) kill(i int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.servers[i].Kill()
	in.kills.Add(1)
}

func (in *inside) revive(i int) error {
	server, err := e2etest.TryStart(in.t, in.options[i])
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.servers[i] = server
	return nil
}

// killInTurn kills one replica after the other and starts it again, until ctx ends; never two at once.
func (in *inside) killInTurn(ctx context.Context) error {
	for i := 0; ctx.Err() == nil; i = (i + 1) % len(in.servers) {
		in.kill(i)
		if err := in.revive(i); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.Int64N(int64(time.Second)))): // harm comes at any moment
		}
	}
	return nil
}

// insist does something until it is well. Only what a lost connection or replica explains is tried again.
func insist(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := do()
		if status := sdk.StatusOf(err); err == nil || status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(pollEvery):
		}
	}
}

// follow hands out the output of a process to its end. It is an error where a byte is missing or comes twice.
func (in *inside) follow(ctx context.Context, name string, id uuid.UUID, out io.Writer) error {
	next := int64(0)
	code, err := in.c.FollowProcess(ctx, name, id, 0, func(o sdk.ProcessOutput) error {
		if o.Offset != next || o.Cut > 0 {
			return fmt.Errorf("offset %d after %d, and %d bytes cut", o.Offset, next, o.Cut)
		}
		n, err := out.Write(o.Bytes())
		next += int64(n)
		return err
	})
	if err == nil && code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return err
}

// command runs one whose output is of its own, and compares every byte.
func (in *inside) command(ctx context.Context, i, lines int) error {
	name, first, id := in.names[i%len(in.names)], 1_000_000_000+i*100_000, uuid.New()
	err := insist(ctx, "start command", func() error {
		_, err := in.c.StartProcess(ctx, name, sdk.ProcessStart{
			ID: &id, Command: []string{"seq", strconv.Itoa(first), strconv.Itoa(first + lines - 1)},
		})
		return err
	})
	if err != nil {
		return err
	}
	var got, want bytes.Buffer
	if err := in.follow(ctx, name, id, &got); err != nil {
		return fmt.Errorf("command %d: %w", i, err)
	}
	for n := range lines {
		fmt.Fprintln(&want, first+n)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		return fmt.Errorf("command %d: %d bytes instead of %d", i, got.Len(), want.Len())
	}
	return nil
}

// counter is a process that counts until it finds a file. What it wrote is whole.
type counter struct {
	id    uuid.UUID
	lines int64
	bytes int64
	rest  []byte
}

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	c.rest = append(c.rest, p...)
	for {
		line, rest, ok := bytes.Cut(c.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if want := fmt.Sprintf("line %d of the output", c.lines); string(line) != want {
			return 0, fmt.Errorf("%q instead of %q", line, want)
		}
		c.lines++
		c.rest = rest
	}
}

const counting = `i=0; while [ ! -e stop ]; do echo "line $i of the output"; i=$((i+1)); sleep 0.01; done`

// count starts a counter and follows it to its end, which comes after stop.
func (in *inside) count(ctx context.Context, name string) (c *counter, stop func() error, ended <-chan error) {
	c = &counter{id: uuid.New()}
	require.NoError(in.t, insist(ctx, "start counter", func() error {
		_, err := in.c.StartProcess(ctx, name, sdk.ProcessStart{ID: &c.id, Shell: counting})
		return err
	}))
	end := make(chan error, 1)
	go func() { end <- in.follow(ctx, name, c.id, c) }()
	return c, func() error {
		return insist(ctx, "end counter", func() error {
			_, err := in.c.WriteFile(ctx, name, "stop", strings.NewReader("x"), sdk.FileWrite{Size: 1})
			return err
		})
	}, end
}

// bytesOf are the same for a seed, and not to be compressed.
func bytesOf(seed byte, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), size)
}

func sumOf(seed byte, size int64) string {
	h := sha256.New()
	_, _ = io.Copy(h, bytesOf(seed, size))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// meets calls do once, when so many bytes have been read.
type meets struct {
	io.Reader
	left int64
	do   func() error
}

func (m *meets) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.left -= int64(n); m.left <= 0 && m.do != nil {
		if failed := m.do(); failed != nil {
			return n, failed
		}
		m.do = nil
	}
	return n, err
}

// upload sends a file until it is there. Halfway through a try harm is done, if there is any left.
func (in *inside) upload(ctx context.Context, name, path string, seed byte, size int64, harm ...func() error) (tries int, err error) {
	err = insist(ctx, "upload", func() error {
		content := &meets{Reader: bytesOf(seed, size), left: size / 2}
		if tries < len(harm) {
			content.do = harm[tries]
		}
		tries++
		f, err := in.c.WriteFile(ctx, name, path, content, sdk.FileWrite{Size: size})
		if err == nil && f.Size != size {
			return fmt.Errorf("%d bytes instead of %d", f.Size, size)
		}
		return err
	})
	return tries, err
}

// download reads a file, and where it was cut the rest of it. After a quarter of the whole in each try harm is done, if there
// is any left.
func (in *inside) download(ctx context.Context, name, path string, size int64, harm ...func() error) (sum string, tries int, err error) {
	h, at, tag := sha256.New(), int64(0), ""
	err = insist(ctx, "download", func() error {
		var do func() error
		if tries < len(harm) {
			do = harm[tries]
		}
		tries++
		n, etag, err := in.part(ctx, name, path, at, tag, size/4, do, h)
		at, tag = at+n, etag
		return err
	})
	if err == nil && at != size {
		err = fmt.Errorf("%d bytes instead of %d", at, size)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), tries, err
}

func (in *inside) part(
	ctx context.Context, name, path string, from int64, tag string, after int64, do func() error, to hash.Hash,
) (n int64, etag string, err error) {
	u := in.c.URL.String() + "/api/v1/workspaces/" + name + "/files/content?path=" + url.QueryEscape(path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return 0, tag, err
	}
	req.Header.Set("Authorization", "Bearer "+in.c.Token)
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		req.Header.Set("If-Range", tag)
	}
	resp, err := in.c.HTTPClient.Do(req)
	if err != nil {
		return 0, tag, err
	}
	defer resp.Body.Close()
	want := http.StatusOK
	if from > 0 {
		want = http.StatusPartialContent
	}
	if resp.StatusCode != want {
		said, _ := io.ReadAll(resp.Body)
		return 0, tag, fmt.Errorf("status %d: %s", resp.StatusCode, said)
	}
	n, err = io.Copy(to, &meets{Reader: resp.Body, left: after, do: do})
	return n, resp.Header.Get("ETag"), err
}

// echo is what a program on a port echoed, over connections that were made again.
type echo struct{ messages, connections, named int }

// echoes sends one message after the other to a program on a port, and wants each back, until ctx ends. A connection that dies
// is made again, and must have said so: what comes is never wrong, and never an end in order.
func (in *inside) echoes(ctx context.Context, name string, port int, e *echo) error {
	u := strings.Replace(in.c.URL.String(), "http", "ws", 1) + fmt.Sprintf("/api/v1/workspaces/%s/ports/%d/http/echo", name, port)
	for ctx.Err() == nil {
		ws, resp, err := websocket.Dial(ctx, u, &websocket.DialOptions{
			HTTPClient: in.c.HTTPClient, HTTPHeader: http.Header{"Authorization": {"Bearer " + in.c.Token}},
		})
		if resp != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 {
			return fmt.Errorf("connect to program: %w", err)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
			continue
		}
		e.connections++
		for ctx.Err() == nil {
			sent := binary.BigEndian.AppendUint64(make([]byte, rand.IntN(32<<10)), uint64(e.messages))
			if ws.Write(ctx, websocket.MessageBinary, sent) != nil {
				break
			}
			_, got, err := ws.Read(ctx)
			if err == nil && !bytes.Equal(got, sent) {
				return fmt.Errorf("message %d came back as another", e.messages)
			}
			if err != nil {
				break
			}
			e.messages++
		}
		_ = ws.CloseNow()
	}
	return nil
}

// rawEchoes is echoes over raw streams. Each that dies gives a cause.
func (in *inside) rawEchoes(ctx context.Context, name string, port int, e *echo) error {
	for ctx.Err() == nil {
		stream, err := in.c.DialPort(ctx, name, port)
		if status := sdk.StatusOf(err); status >= 400 && status < 500 {
			return err
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
			continue
		}
		e.connections++
		stop := context.AfterFunc(ctx, stream.Cut)
		for {
			sent := binary.BigEndian.AppendUint64(make([]byte, 8), uint64(e.messages))
			got := make([]byte, len(sent))
			if _, err = stream.Write(sent); err == nil {
				_, err = io.ReadFull(stream, got)
			}
			if err != nil {
				break
			}
			if !bytes.Equal(got, sent) {
				return fmt.Errorf("raw message %d came back as another", e.messages)
			}
			e.messages++
		}
		stop()
		_, err = stream.Read(make([]byte, 1)) // a write may have failed first
		stream.Cut()
		var closed *sdk.StreamError
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &closed) && closed.Error() != "":
			e.named++
		default:
			return fmt.Errorf("a connection died without a cause: %w", err)
		}
	}
	return nil
}

// serveEchoes is a program on two ports; local workspaces have the machine's.
func serveEchoes(t *testing.T) (web, raw int) {
	t.Helper()
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		ws.SetReadLimit(1 << 20)
		for {
			kind, message, err := ws.Read(r.Context())
			if err != nil || ws.Write(r.Context(), kind, message) != nil {
				return
			}
		}
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

// memory is what processes have resident at most from now on, and now.
type memory map[int]int64

// watchMemory begins anew to remember the most that processes have.
func watchMemory(t *testing.T, pids ...int) memory {
	t.Helper()
	m := memory{}
	for _, pid := range pids {
		require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600))
		m[pid] = statusOf(t, pid, "VmHWM")
	}
	return m
}

// more is how much more any of them has had since.
func (m memory) more(t *testing.T) (most int64) {
	t.Helper()
	for pid, before := range m {
		most = max(most, statusOf(t, pid, "VmHWM")-before)
	}
	return most
}

func statusOf(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), field+":")
	fields := strings.Fields(rest)
	require.NotEmpty(t, fields, status)
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	require.NoError(t, err)
	return kib << 10
}

// agentOf is the process of a workspace's agent.
func (in *inside) agentOf(name string) int {
	in.t.Helper()
	w, err := in.c.Workspace(in.t.Context(), name)
	require.NoError(in.t, err)
	root := filepath.Dir(in.options[0].DataDir)
	for _, p := range workspaceProcesses(in.t, root) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if words := strings.Split(string(args), "\x00"); p.workspace == w.ID.String() && len(words) > 1 && words[1] == "agent" {
			return p.PID
		}
	}
	require.Fail(in.t, "no agent", name)
	return 0
}

// Three replicas are killed in turn, while commands run, files go both ways and programs on ports answer, each request at any of
// the replicas. Output is the same to the byte, files have the same hash, what goes through a connection is right as long as it
// lives, and neither agent nor replica needs more memory for a large file.
func TestInside(t *testing.T) {
	t.Parallel()
	commands, size, echoing := 100, int64(64<<20), 5*time.Second
	if thorough(t) {
		commands, size, echoing = 1000, int64(1<<30), time.Minute
	}
	in := newInside(t, 3, 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	files := in.names[0]

	// Undisturbed, for the memory.
	agent := in.agentOf(files)
	pids := make([]int, len(in.servers))
	for i, s := range in.servers {
		pids[i] = s.PID()
	}
	want := sumOf(1, size)
	replicas, agents := watchMemory(t, pids...), watchMemory(t, agent)
	began := time.Now()
	_, err := in.upload(ctx, files, "large", 1, size)
	require.NoError(t, err)
	uploaded := time.Since(began)
	began = time.Now()
	sum, _, err := in.download(ctx, files, "large", size)
	require.NoError(t, err)
	require.Equal(t, want, sum)
	t.Logf("%d MiB up in %.1f s and down in %.1f s; more memory: a replica %d MiB, the agent %d MiB", size>>20, uploaded.Seconds(),
		time.Since(began).Seconds(), replicas.more(t)>>20, agents.more(t)>>20)
	require.Less(t, replicas.more(t), int64(mostMemory))
	require.Less(t, agents.more(t), int64(mostMemory))

	counter, stop, counted := in.count(ctx, in.names[1])
	var all errgroup.Group
	web, raw := serveEchoes(t)
	overWeb, overRaw := &echo{}, &echo{}
	echoCtx, endEchoes := context.WithCancel(ctx)
	defer endEchoes()
	all.Go(func() error { return in.echoes(echoCtx, in.names[2], web, overWeb) })
	all.Go(func() error { return in.rawEchoes(echoCtx, in.names[1], raw, overRaw) })
	echoesBegan := time.Now()

	// Commands, while replicas come and go. So few run at once that none is forgotten before it was read.
	killing, endKills := context.WithCancel(ctx)
	defer endKills()
	killed := make(chan error, 1)
	go func() { killed <- in.killInTurn(killing) }()
	ran := 0
	for ran < commands || in.kills.Load() < 6 || time.Since(echoesBegan) < echoing {
		var batch errgroup.Group
		batch.SetLimit(8)
		for range 50 {
			i := ran
			ran++
			batch.Go(func() error { return in.command(ctx, i, 1<<rand.IntN(14)) })
		}
		require.NoError(t, batch.Wait())
	}
	endKills()
	require.NoError(t, <-killed)
	kills := in.kills.Load()

	// Files, whose tunnel dies halfway, some times over.
	var dead []int
	harm := func() error {
		i, err := in.holder(files)
		if err == nil {
			in.kill(i)
			dead = append(dead, i)
		}
		return err
	}
	revive := func() {
		for _, i := range dead {
			require.NoError(t, in.revive(i))
		}
		dead = nil
	}
	ups, err := in.upload(ctx, files, "again", 2, size, harm)
	require.NoError(t, err)
	require.Greater(t, ups, 1, "an upload was cut")
	revive()
	sum, downs, err := in.download(ctx, files, "again", size, harm)
	require.NoError(t, err)
	require.Equal(t, sumOf(2, size), sum)
	require.Greater(t, downs, 1, "a download was cut")
	revive()
	require.Less(t, agents.more(t), int64(mostMemory))
	list, err := in.c.Files(ctx, files, "", "", 0)
	require.NoError(t, err)
	for _, f := range list.Files {
		require.False(t, strings.HasPrefix(f.Name, ".prewarm-"), "an upload that was cut leaves %s", f.Name)
	}

	require.NoError(t, stop())
	require.NoError(t, <-counted)
	endEchoes()
	require.NoError(t, all.Wait())
	require.Greater(t, counter.lines, int64(100))
	require.Greater(t, overWeb.connections, 1)
	require.Positive(t, overRaw.named)
	t.Logf("%d commands and %d kills; uploads were sent %d times, downloads resumed %d times; %d lines of one process",
		ran, kills+int64(ups+downs-2), ups, downs-1, counter.lines)
	t.Logf("WebSocket: %d echoes over %d connections; raw: %d over %d, of which %d died with a cause; the agent had %d MiB more in all",
		overWeb.messages, overWeb.connections, overRaw.messages, overRaw.connections, overRaw.named, agents.more(t)>>20)
}

// An agent behind a network that cuts each connection every few seconds, and one behind a network that is far and loses much: commands,
// files and a process that is followed come through whole.
func TestInside_badNetworks(t *testing.T) {
	t.Parallel()
	commands, every, size := 10, time.Second, int64(16<<20)
	if thorough(t) {
		commands, every, size = 100, 5*time.Second, 256<<20
	}
	for name, bad := range map[string]func(*road, context.Context){
		"cut": func(r *road, ctx context.Context) {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(every):
					r.cut()
				}
			}
		},
		"far and lossy": func(r *road, _ context.Context) { r.slow(100*time.Millisecond, 0.02) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newInside(t, 1, 1)
			client := *in.servers[0].Client // the user's network is a good one
			client.HTTPClient = in.c.HTTPClient
			in.c = &client
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var network sync.WaitGroup
			network.Go(func() { bad(in.road, ctx) })
			size := size
			var harm []func() error
			if name == "cut" {
				harm = append(harm, func() error { in.road.cut(); return nil }) // in the middle of a file too
			} else {
				size /= 8 // a window for each round trip
			}
			counter, stop, counted := in.count(ctx, in.names[0])
			began := time.Now()
			for i := range commands {
				require.NoError(t, in.command(ctx, i, 1<<rand.IntN(12)))
			}
			ups, err := in.upload(ctx, in.names[0], "file", 3, size, harm...)
			require.NoError(t, err)
			sum, downs, err := in.download(ctx, in.names[0], "file", size, harm...)
			require.NoError(t, err)
			require.Equal(t, sumOf(3, size), sum)
			for i := commands; name == "cut" && time.Since(began) < 3*every; i++ {
				require.NoError(t, in.command(ctx, i, 1))
			}
			require.NoError(t, stop())
			require.NoError(t, <-counted)
			cancel()
			network.Wait()
			require.Greater(t, counter.lines, int64(100))
			in.road.mu.Lock()
			defer in.road.mu.Unlock()
			if name == "cut" {
				require.Greater(t, in.road.cuts, 5)
				require.Greater(t, ups+downs, 2)
			}
			t.Logf("%.1f s; %d connections cut; a file of %d MiB was sent %d times, and read in %d parts; %d lines of one process",
				time.Since(began).Seconds(), in.road.cuts, size>>20, ups, downs, counter.lines)
		})
	}
}
