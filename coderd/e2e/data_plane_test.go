package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
  - name: agents
    provider: local
    boot_timeout: 2m
    agent: {heartbeat_timeout: 1m}
    spec: {command: [sleep, infinity]}
    presets: [{name: default, prebuilds: {instances: %d}}]
`

// entered is a claimed workspace whose agent has a tunnel, to any of some replicas.
type entered struct {
	t       testing.TB
	clients []*sdk.Client
	name    string
}

func enter(t testing.TB, clients ...*sdk.Client) entered {
	t.Helper()
	claim, err := clients[0].Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Mode: "prefer", Wait: "1m"})
	require.NoError(t, err)
	return entered{t, clients, claim.Name}
}

func (e entered) client() *sdk.Client { return e.clients[rand.IntN(len(e.clients))] }

// request is what curl sends: anything with a token.
func (e entered) request(ctx context.Context, c *sdk.Client, method, path, body string) *http.Response {
	e.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.URL.String()+"/api/v1/workspaces/"+e.name+path, strings.NewReader(body))
	require.NoError(e.t, err)
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(e.t, err)
	return resp
}

// run is one request that starts a command and reads its output.
func (e entered) run(ctx context.Context, c *sdk.Client, start sdk.ProcessStart) (output []byte, exitCode int) {
	e.t.Helper()
	body, err := json.Marshal(start)
	require.NoError(e.t, err)
	resp := e.request(ctx, c, http.MethodPost, "/run", string(body))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		require.Equal(e.t, http.StatusOK, resp.StatusCode, string(text))
	}
	for lines := json.NewDecoder(resp.Body); ; {
		var line sdk.ProcessOutput
		require.NoError(e.t, lines.Decode(&line))
		require.Zero(e.t, line.Cut)
		output = append(output, line.Bytes()...)
		if line.ExitCode != nil {
			return output, *line.ExitCode
		}
	}
}

// fleet is some replicas on a database, without a template. At the end all workspaces are gone before a server is.
func fleet(t *testing.T, n int, args ...string) []*e2etest.Server {
	t.Helper()
	return fleetOn(t, dbtest.URL(t), n, args...)
}

// fleetOn is fleet on a database that the test looks into.
func fleetOn(t *testing.T, url string, n int, args ...string) []*e2etest.Server {
	t.Helper()
	servers := e2etest.StartAll(t, n, e2etest.Options{PostgresURL: url, Tick: 300 * time.Millisecond, Args: args})
	t.Cleanup(func() {
		ctx, c := context.WithoutCancel(t.Context()), servers[0].Client
		_ = c.DeleteTemplate(ctx, "agents")
		eventually(t, "all workspaces to be gone", func() bool {
			list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "claimed"})
			for _, w := range list.Workspaces {
				_, _ = c.DeleteWorkspace(ctx, w.Name, false)
			}
			left := 0
			for _, s := range servers {
				found, _ := filepath.Glob(filepath.Join(s.DataDir, "local", "prebuild-*"))
				left += len(found)
			}
			return err == nil && left == 0
		})
	})
	return servers
}

// A command and its output by plain HTTP, its input, a terminal, signals, and exec with the protocol that it always had.
func TestProcesses(t *testing.T) {
	t.Parallel()
	server := agents(t, fmt.Sprintf(enterable, 1))
	c := server.Client
	e := enter(t, c)

	output, code := e.run(t.Context(), c, sdk.ProcessStart{Shell: `pwd; printf 'h\344llo é\n'; echo $A $PREWARM_WORKSPACE; exit 7`, Env: map[string]string{"A": "b"}})
	require.Equal(t, home(show(t, c, e.name))+"\nh\344llo é\nb "+e.name+"\n", string(output))
	require.Equal(t, 7, code)

	// It outlives its client, waits for its input, and is found again.
	p, err := c.StartProcess(t.Context(), e.name, sdk.ProcessStart{Command: []string{"cat"}, Stdin: true})
	require.NoError(t, err)
	same, err := c.StartProcess(t.Context(), e.name, sdk.ProcessStart{ID: &p.ID, Command: []string{"cat"}, Stdin: true})
	require.NoError(t, err)
	require.Equal(t, p.PID, same.PID, "the id makes it the same process")
	require.NoError(t, c.WriteProcess(t.Context(), e.name, p.ID, strings.NewReader("one\n"), false))
	require.NoError(t, c.WriteProcess(t.Context(), e.name, p.ID, strings.NewReader("two\n"), true))
	var read bytes.Buffer
	code, err = c.FollowProcess(t.Context(), e.name, p.ID, 2, func(o sdk.ProcessOutput) error { read.Write(o.Bytes()); return nil })
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "e\ntwo\n", read.String())
	list, err := c.Processes(t.Context(), e.name)
	require.NoError(t, err)
	require.Len(t, list, 2)

	// A terminal has its size, and a signal ends what runs in it.
	p, err = c.StartProcess(t.Context(), e.name, sdk.ProcessStart{Shell: "stty size; sleep 1000", TTY: true, Rows: 11, Cols: 22})
	require.NoError(t, err)
	lines := make(chan string, 10)
	ended := make(chan int, 1)
	go func() {
		code, _ := c.FollowProcess(t.Context(), e.name, p.ID, 0, func(o sdk.ProcessOutput) error { lines <- o.Text; return nil })
		ended <- code
	}()
	require.Equal(t, "11 22\r\n", <-lines)
	require.NoError(t, c.SignalProcess(t.Context(), e.name, p.ID, "KILL"))
	require.Equal(t, 137, <-ended)
	shown, err := c.AwaitProcess(t.Context(), e.name, p.ID)
	require.NoError(t, err)
	require.Equal(t, 137, *shown.ExitCode)
	p, err = c.StartProcess(t.Context(), e.name, sdk.ProcessStart{Command: []string{"sleep", "1000"}, Timeout: "100ms"})
	require.NoError(t, err)
	shown, err = c.AwaitProcess(t.Context(), e.name, p.ID)
	require.NoError(t, err)
	require.True(t, shown.TimedOut)

	for _, wrong := range []sdk.ProcessStart{
		{},
		{Command: []string{"/no/such"}},
		{Command: []string{"no-such"}},
		{Shell: "true", Dir: "nowhere"},
		{Shell: "true", User: "no-such-user"},
		{Shell: "true", Timeout: "soon"},
	} {
		_, err = c.StartProcess(t.Context(), e.name, wrong)
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%v", err)
	}

	var out, errs bytes.Buffer
	code, err = c.Exec(t.Context(), e.name, sdk.ExecRequest{
		ExecStart: sdk.ExecStart{Command: []string{"sh", "-c", "cat; echo no >&2; exit 3"}}, Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errs,
	})
	require.NoError(t, err)
	require.Equal(t, []any{3, "in", "no\n"}, []any{code, out.String(), errs.String()})
	require.Regexp(t, `\nprewarm_tunnels [12]\n`, metrics(t, server.URL))

	// Who was in is on record, and nothing of what they did.
	eventually(t, "the sessions in the audit log", func() bool {
		log, err := c.Audit(t.Context(), sdk.AuditFilter{})
		require.NoError(t, err)
		raw, err := json.Marshal(log)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "sleep")
		text := string(raw)
		return strings.Contains(text, "session.begin") && strings.Contains(text, `"kind":"exec"`) && strings.Contains(text, `"exit_code":137`)
	})
}

// program writes the same bytes each time: n of them, by a seed.
func program(seed, n int) (shell string, want []byte) {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d.%d:%s\n", seed, i, strings.Repeat("x", i%61))
	}
	return fmt.Sprintf(`awk 'BEGIN { n = 0; for (i = 0; n < %d; i++) { s = sprintf("%d.%%d:", i); for (j = 0; j < i %% 61; j++) s = s "x"; print s; n += length(s) + 1 } }'`, n, seed), b.Bytes()
}

// What is started from the command line goes on without it, and is followed, listed and ended by its id.
func TestProcesses_commandLine(t *testing.T) {
	t.Parallel()
	server := agents(t, fmt.Sprintf(enterable, 1))
	e := enter(t, server.Client)
	prewarm := func(args ...string) e2etest.Outcome {
		return e2etest.Run(t.Context(), t, []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + server.Client.Token}, args...)
	}
	started := prewarm("process", "start", e.name, "--env", "A=b", "--", "sh", "-c", "echo $A; echo c >&2; exit 7")
	require.Zero(t, started.Status, started.Stderr)
	output := prewarm("process", "output", e.name, strings.TrimSpace(started.Stdout))
	require.Equal(t, e2etest.Outcome{Stdout: "b\n", Stderr: "c\n", Status: 7}, output)

	endless := prewarm("process", "start", e.name, "--", "sleep", "infinity")
	id := strings.TrimSpace(endless.Stdout)
	require.Contains(t, prewarm("process", "list", e.name).Stdout, id+"  runs")
	require.Zero(t, prewarm("process", "signal", e.name, id, "KILL").Status)
	require.Equal(t, 137, prewarm("process", "output", e.name, id).Status)
	require.Contains(t, prewarm("process", "list", e.name).Stdout, id+"  ended with 137")

	none := prewarm("process", "output", e.name, "nothing")
	require.Equal(t, 2, none.Status)
	require.Contains(t, none.Stderr, "prewarm process list "+e.name)
}

// Commands through random replicas, of which one has the tunnel: every output is the same to the byte. PREWARM_TEST_LONG=1 has
// 1,000 of them.
func TestProcesses_anyReplica(t *testing.T) {
	t.Parallel()
	commands := 200
	if os.Getenv("PREWARM_TEST_LONG") != "" {
		commands = 1000
	}
	servers := fleet(t, 3)
	clients := make([]*sdk.Client, len(servers))
	for i, s := range servers {
		clients[i] = s.Client
	}
	apply(t.Context(), t, clients[0], enterable, 3)
	places := []entered{enter(t, clients...), enter(t, clients...), enter(t, clients...)}
	var running errgroup.Group
	running.SetLimit(8)
	for i := range commands {
		running.Go(func() error {
			e := places[i%len(places)]
			shell, want := program(i, 1<<rand.IntN(18))
			got, code := e.run(t.Context(), e.client(), sdk.ProcessStart{Shell: shell})
			if code != 0 || !bytes.Equal(want, got) {
				return fmt.Errorf("command %d: exit code %d, %d bytes instead of %d", i, code, len(got), len(want))
			}
			return nil
		})
	}
	require.NoError(t, running.Wait())
	relayed := 0
	for _, s := range servers {
		if !strings.Contains(metrics(t, s.URL), `prewarm_relayed_streams_total{end="to"} 0`) {
			relayed++
		}
	}
	require.Positive(t, relayed)
}

// The replica that has the tunnel is killed while output comes: attached to again, at another one, nothing is missing and
// nothing comes twice.
func TestProcesses_replicaKilled(t *testing.T) {
	t.Parallel()
	url, road := dbtest.URL(t), newWay(t)
	here := agentsOn(t, url, fmt.Sprintf(enterable, 1), "--access-url", road.url())
	road.aim(here)
	e := enter(t, here.Client)
	ready(t, here.Client) // so that nothing is left to create at the replica that will be killed
	there := e2etest.Start(t, e2etest.Options{PostgresURL: url, Args: []string{"--access-url", road.url()}})
	road.aim(there)
	road.set(false)
	store := dbtest.OpenURL(t, url, database.Options{MaxConns: 2})
	eventually(t, "the tunnel at the other replica", func() bool {
		var name string
		err := store.Pool.QueryRow(t.Context(), `SELECT r.name FROM tunnels t JOIN replicas r ON r.instance_id = t.replica_id
			JOIN workspaces w ON w.id = t.workspace_id WHERE w.name = $1 ORDER BY t.connected_at DESC LIMIT 1`, e.name).Scan(&name)
		return err == nil && name == there.Replica
	})
	p, err := e.client().StartProcess(t.Context(), e.name, sdk.ProcessStart{
		Shell: `i=0; while [ $i -lt 400 ]; do echo "line $i of the output"; i=$((i+1)); sleep 0.01; done`,
	})
	require.NoError(t, err)
	var want, got bytes.Buffer
	for i := range 400 {
		fmt.Fprintf(&want, "line %d of the output\n", i)
	}
	killed := sync.OnceFunc(func() {
		road.aim(here)
		there.Kill()
		road.set(false)
	})
	next := int64(0)
	code, err := e.client().FollowProcess(t.Context(), e.name, p.ID, 0, func(o sdk.ProcessOutput) error {
		if o.Offset != next {
			return fmt.Errorf("offset %d after %d", o.Offset, next)
		}
		got.Write(o.Bytes())
		next += int64(len(o.Bytes()))
		if got.Len() > 2000 {
			killed()
		}
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, want.String(), got.String())
}

func (w *way) aim(s *e2etest.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = s.Client.URL.Host
}

// Behind a proxy that cuts each connection after some bytes the output is whole all the same.
func TestProcesses_cutConnections(t *testing.T) {
	t.Parallel()
	road := newWay(t)
	server := agents(t, fmt.Sprintf(enterable, 1), "--access-url", road.url())
	road.aim(server)
	e := enter(t, server.Client)
	road.set(false) // the tunnel is cut, and about to be opened again
	var out bytes.Buffer
	_, err := server.Client.Exec(t.Context(), e.name, sdk.ExecRequest{ExecStart: sdk.ExecStart{Command: []string{"echo", "well"}}, Stdout: &out})
	require.NoError(t, err)
	require.Equal(t, "well\n", out.String())
	road.mu.Lock()
	road.most = 64 << 10
	road.mu.Unlock()
	road.set(false)
	shell, want := program(1, 600<<10)
	p, err := server.Client.StartProcess(t.Context(), e.name, sdk.ProcessStart{Shell: shell})
	require.NoError(t, err)
	sum := sha256.New()
	code, err := server.Client.FollowProcess(t.Context(), e.name, p.ID, 0, func(o sdk.ProcessOutput) error {
		if o.Cut > 0 {
			return fmt.Errorf("%d bytes are missing", o.Cut)
		}
		sum.Write(o.Bytes())
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, code)
	whole := sha256.Sum256(want)
	require.Equal(t, hex.EncodeToString(whole[:]), hex.EncodeToString(sum.Sum(nil)))
	road.mu.Lock()
	defer road.mu.Unlock()
	require.Greater(t, road.cuts, 5)
}

// users makes clients of users with a role at a server, by tokens that the owner makes.
func users(t *testing.T, server string, owner *sdk.Client) func(name, role string) *sdk.Client {
	t.Helper()
	return func(name, role string) *sdk.Client {
		t.Helper()
		made, err := owner.CreateToken(t.Context(), sdk.CreateTokenRequest{Name: name, User: name, Role: role})
		require.NoError(t, err)
		c, err := sdk.New(server, made.Secret)
		require.NoError(t, err)
		return c
	}
}

// With the release every stream ends, and so does what ran; who is not the claim's user never got in.
func TestProcesses_strangers(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 2)
	as := users(t, servers[1].URL, owner)
	alice, bob, auditor := as("alice", "member"), as("bob", "member"), as("eve", "auditor")
	e := enter(t, alice)
	mark := "1000." + strconv.FormatUint(rand.Uint64(), 10) // which no other process of the machine has
	start := sdk.ProcessStart{Shell: "echo begun; exec sleep " + mark}
	p, err := alice.StartProcess(t.Context(), e.name, start)
	require.NoError(t, err)
	for name, c := range map[string]*sdk.Client{"another member": bob, "an auditor": auditor, "the owner": owner} {
		_, err := c.StartProcess(t.Context(), e.name, start)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
		_, err = c.Process(t.Context(), e.name, p.ID)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
	}
	// Another's process is none in one's own workspace, and an unclaimed workspace has no door.
	mine := enter(t, bob)
	_, err = bob.Process(t.Context(), mine.name, p.ID)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err), "%v", err)
	idle := ready(t, owner)
	_, err = owner.StartProcess(t.Context(), idle.Name, start)
	require.Contains(t, []int{http.StatusNotFound, http.StatusConflict}, sdk.StatusOf(err), "%v", err)

	token, err := os.ReadFile(strings.TrimSuffix(home(show(t, owner, e.name)), "/home") + "/agent/agent-token")
	require.NoError(t, err)
	instance, err := sdk.New(servers[0].URL, strings.TrimSpace(string(token)))
	require.NoError(t, err)

	followed := make(chan error, 1)
	began := make(chan bool, 1)
	go func() {
		_, err := alice.FollowProcess(t.Context(), e.name, p.ID, 0, func(sdk.ProcessOutput) error { began <- true; return nil })
		followed <- err
	}()
	<-began
	require.True(t, runs(t, mark))
	_, err = alice.ReleaseWorkspace(t.Context(), e.name)
	require.NoError(t, err)
	require.Error(t, <-followed)
	_, err = alice.StartProcess(t.Context(), e.name, start)
	require.Contains(t, []int{http.StatusNotFound, http.StatusConflict}, sdk.StatusOf(err), "%v", err)
	_, err = instance.OpenTunnel(t.Context())
	require.Equal(t, http.StatusUnauthorized, sdk.StatusOf(err), "%v", err)
	_, err = alice.OpenTunnel(t.Context())
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err), "a user's token opens no tunnel: %v", err)
	eventually(t, "the process to be gone", func() bool { return !runs(t, mark) })
}

// runs says whether any process of the machine has such an argument.
func runs(t *testing.T, argument string) bool {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	return slices.ContainsFunc(processes, func(path string) bool {
		content, _ := os.ReadFile(path) // of one that has ended meanwhile there is nothing
		return strings.Contains(string(content), "\x00"+argument+"\x00")
	})
}

// Where the template turns the data plane off there is no tunnel, and exec goes through the provider.
func TestProcesses_dataPlaneOff(t *testing.T) {
	t.Parallel()
	server := agents(t, strings.Replace(fmt.Sprintf(enterable, 1), "heartbeat_timeout: 1m", "data_plane: false", 1))
	e := enter(t, server.Client)
	_, err := server.Client.StartProcess(t.Context(), e.name, sdk.ProcessStart{Shell: "true"})
	require.Equal(t, http.StatusNotImplemented, sdk.StatusOf(err), "%v", err)
	var out bytes.Buffer
	_, err = server.Client.Exec(t.Context(), e.name, sdk.ExecRequest{ExecStart: sdk.ExecStart{Command: []string{"echo", "well"}}, Stdout: &out})
	require.NoError(t, err)
	require.Equal(t, "well\n", out.String())
	require.Contains(t, metrics(t, server.URL), "prewarm_tunnels 0")
	_, err = server.Client.Process(t.Context(), e.name, uuid.New())
	require.Equal(t, http.StatusNotImplemented, sdk.StatusOf(err), "%v", err)
}
