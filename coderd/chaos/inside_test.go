package chaos_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	replicas, agents := e2etest.WatchMemory(t, pids...), e2etest.WatchMemory(t, agent)
	began := time.Now()
	_, err := in.upload(ctx, files, "large", 1, size)
	require.NoError(t, err)
	uploaded := time.Since(began)
	began = time.Now()
	sum, _, err := in.download(ctx, files, "large", size)
	require.NoError(t, err)
	require.Equal(t, want, sum)
	t.Logf("%d MiB up in %.1f s and down in %.1f s; more memory: a replica %d MiB, the agent %d MiB", size>>20, uploaded.Seconds(),
		time.Since(began).Seconds(), replicas.More(t)>>20, agents.More(t)>>20)
	require.Less(t, replicas.More(t), int64(mostMemory))
	require.Less(t, agents.More(t), int64(mostMemory))

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
	require.Less(t, agents.More(t), int64(mostMemory))
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
		overWeb.messages, overWeb.connections, overRaw.messages, overRaw.connections, overRaw.named, agents.More(t)>>20)
}

// An agent behind a network that cuts each connection every few seconds, and one behind a network that is far and loses much: commands,
// files and a process that is followed come through whole.
func TestInside_badNetworks(t *testing.T) {
	t.Parallel()
	commands, every, size := 10, time.Second, int64(4<<20) // a file fits between two cuts, also on a slow machine
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
				size /= 4 // a window for each round trip
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
