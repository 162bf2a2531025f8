package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
)

// deadline is a time that only a hang exceeds.
const deadline = time.Minute

var installation = uuid.New()

func request(name, spec string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name, Tags: provider.Tags{Installation: installation, WorkspaceID: uuid.New(), Incarnation: 1},
		Organization: "default", Template: "template", Preset: "preset", Spec: json.RawMessage(spec),
	}
}

func create(t *testing.T, p *local.Provider, name, spec string) provider.Instance {
	t.Helper()
	i, err := p.Create(t.Context(), request(name, spec))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Delete(context.Background(), refOf(i))) })
	return i
}

func refOf(i provider.Instance) provider.Ref {
	return provider.Ref{Name: i.Name, ProviderID: i.ProviderID, WorkspaceID: i.Tags.WorkspaceID}
}

func home(i provider.Instance) string { return i.Environment["PREWARM_DIR"] }

// command is a spec that runs a shell script.
func command(stopGrace, script string) string {
	spec, _ := json.Marshal(map[string]any{"stop_grace": stopGrace, "command": []string{"sh", "-c", script}})
	return string(spec)
}

// eventually polls until f says yes.
func eventually(t *testing.T, f func() bool, what ...any) {
	t.Helper()
	require.Eventually(t, f, deadline, 5*time.Millisecond, what...)
}

// readFile waits for a file that a workspace writes, and for its first line to be whole.
func readFile(t *testing.T, path string) string {
	t.Helper()
	var content []byte
	eventually(t, func() bool {
		content, _ = os.ReadFile(path)
		return strings.Contains(string(content), "\n")
	}, "no content in "+path)
	return strings.TrimSpace(string(content))
}

// readPID waits for a process id that a process wrote into its home, and translates it from the workspace's namespace.
func readPID(t *testing.T, path string) int {
	t.Helper()
	d := filepath.Dir(filepath.Dir(path))
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", supervisor(t, filepath.Dir(d), filepath.Base(d))))
	require.NoError(t, err)
	inside := readFile(t, path)
	entries, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	for _, e := range entries {
		status, _ := os.ReadFile(e)
		_, ids, _ := strings.Cut(string(status), "\nNSpid:")
		ids, _, _ = strings.Cut(ids, "\n")
		all := strings.Fields(ids)
		if in, _ := os.Readlink(filepath.Dir(e) + "/ns/pid"); len(all) == 0 || in != namespace || all[len(all)-1] != inside {
			continue
		}
		pid, err := strconv.Atoi(all[0])
		require.NoError(t, err)
		return pid
	}
	require.Fail(t, "no process has that id", "%s in %s", inside, namespace)
	return 0
}

// public is a directory that every user can use.
func public(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "prewarm-public-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(path)) })
	require.NoError(t, os.Chmod(path, 0o777|os.ModeSticky))
	return path
}

// self is this program, where every user can run it.
func self(t *testing.T) string {
	t.Helper()
	path := filepath.Join(public(t), "self")
	content, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	programtest.Write(t, path, content, 0o755)
	return path
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func supervisor(t *testing.T, root, name string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name, "state.json"))
	require.NoError(t, err)
	var state struct{ Supervisor struct{ PID int } }
	require.NoError(t, json.Unmarshal(content, &state))
	return state.Supervisor.PID
}

// requireEmpty checks that a root holds no trace of any workspace.
func requireEmpty(t *testing.T, root string) {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != root && e.Name() != ".prewarm" {
			path, _ = filepath.Rel(root, path)
			found = append(found, path)
		}
		return err
	}))
	assert.Equal(t, []string{".prewarm/aside", ".prewarm/locks", ".prewarm/ports", ".prewarm/site", ".prewarm/uids"}, found)
}

// escape is a command from which a process runs away: into a session of its own, without environment, and with its
// parent gone.
const escape = `{"command": ["sh", "-c",
	"(env -i setsid sh -c 'echo $$ > escaped; exec sleep 1000' &) ; echo $$ > main; exec sleep 1000"]}`

func TestOutlivesItsServer(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	s := startServer(t, root)
	req := request("survivor", escape)
	require.NoError(t, s.in.Encode(req))
	require.Equal(t, "survivor", s.line())
	s.kill()

	p := open(t, root)
	i, err := p.Get(t.Context(), provider.Ref{Name: "survivor"})
	require.NoError(t, err)
	assert.Equal(t, provider.StatusRunning, i.Status)
	assert.Equal(t, req.Tags, i.Tags)
	main, escaped := readPID(t, home(i)+"/main"), readPID(t, home(i)+"/escaped")
	assert.True(t, running(main))
	assert.True(t, running(escaped))

	again, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, i, again)
	assert.True(t, running(main), "the process that was there goes on")

	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.False(t, running(main))
	assert.False(t, running(escaped))
	requireEmpty(t, root)
}

// Kills a server at any moment of a create, fifty times; whatever is there then, the same create completes it and a
// delete removes all of it.
func TestServerKilledDuringCreate(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	left := map[string]int{}
	for round := range 50 {
		name := fmt.Sprintf("cut-%d", round)
		req := request(name, `{"setup": ["sh", "-c", "echo x >> setups"], "command": ["sleep", "1000"], "port": true}`)
		s := startServer(t, root)
		require.NoError(t, s.in.Encode(req))
		moment := time.NewTimer(rand.N(12 * time.Millisecond))
		<-moment.C
		s.kill()

		there, err := p.Get(t.Context(), provider.Ref{Name: name})
		if errors.Is(err, provider.ErrNotFound) {
			there.Status = "nothing"
		} else {
			require.NoError(t, err)
		}
		left[string(there.Status)]++
		if round%5 == 0 { // sometimes nobody wants it any more
			require.NoError(t, p.Delete(t.Context(), provider.Ref{Name: name}))
			requireEmpty(t, root)
			continue
		}
		i, err := p.Create(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, provider.StatusRunning, i.Status, "%+v", i)
		eventually(t, func() bool {
			ready, err := p.Ready(t.Context(), refOf(i))
			return assert.NoError(t, err) && ready.Ready
		})
		assert.Equal(t, "x", readFile(t, home(i)+"/setups"), "setup ran once")
		require.NoError(t, p.Delete(t.Context(), refOf(i)))
		requireEmpty(t, root)
	}
	t.Logf("what a killed server left: %v", left)
}

func TestManyServersCreateOne(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var servers []*server
	for range 4 {
		servers = append(servers, startServer(t, root))
	}
	for round := range 5 {
		req := request(fmt.Sprintf("shared-%d", round), `{"command": ["sh", "-c", "echo x >> starts; exec sleep 1000"]}`)
		for _, s := range servers {
			require.NoError(t, s.in.Encode(req))
		}
		for _, s := range servers {
			require.Equal(t, req.Name, s.line())
		}
	}
	p := open(t, root)
	all, err := p.List(t.Context(), installation)
	require.NoError(t, err)
	require.Len(t, all, 5)
	for _, listed := range all {
		i, err := p.Get(t.Context(), refOf(listed))
		require.NoError(t, err)
		assert.Equal(t, "x", readFile(t, home(i)+"/starts"), "its command was started once")
		require.NoError(t, p.Delete(t.Context(), refOf(i)))
	}
	requireEmpty(t, root)
}

func TestDeleteEndsEscapedProcesses(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "daemon", escape)
	main, escaped := readPID(t, home(i)+"/main"), readPID(t, home(i)+"/escaped")
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.False(t, running(main))
	assert.False(t, running(escaped))
	requireEmpty(t, root)
}

// Who claims a workspace may put what was handed out into the environment of a shell of this machine: what runs in that
// shell is not the workspace's.
func TestDeleteSparesWhoHasTheHandedOutEnvironment(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "evaluated", command("1s", "sleep 1000"))
	shell := exec.Command("sleep", "1000")
	for name, value := range i.Environment {
		shell.Env = append(shell.Env, name+"="+value)
	}
	require.NoError(t, shell.Start())
	ended := make(chan error, 1)
	go func() { ended <- shell.Wait() }()
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	require.True(t, running(shell.Process.Pid))
	require.NoError(t, shell.Process.Kill())
	require.Error(t, <-ended)
}

func TestDeleteEndsWhatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "stubborn", `{"stop_grace": "50ms",
		"command": ["sh", "-c", "trap '' TERM; echo $$ > main; while :; do sleep 1000; done"]}`)
	main := readPID(t, home(i)+"/main")
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.False(t, running(main))
	requireEmpty(t, root)
}

func TestSIGTERMComesFirst(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	witness := filepath.Join(public(t), "witness")
	i := create(t, p, "polite", fmt.Sprintf(
		`{"stop_grace": "1m", "command": ["sh", "-c",
			"trap 'echo bye > %s; exit 0' TERM; echo > up; while :; do sleep 0.01; done"]}`, witness))
	readUp := home(i) + "/up"
	eventually(t, func() bool { _, err := os.Stat(readUp); return err == nil })
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.Equal(t, "bye", readFile(t, witness))
}

// The workspace's life is its command's.
func TestCommandEndsAndTheRestWithIt(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "short", command("50ms", `
		(setsid sh -c 'trap "" TERM; echo $$ > escaped; while :; do sleep 1000; done' &)
		while [ ! -e go ]; do sleep 0.01; done
		echo last words
		exit 3`))
	escaped := readPID(t, home(i)+"/escaped")
	require.NoError(t, os.WriteFile(home(i)+"/go", nil, 0o600))
	eventually(t, func() bool { return !running(escaped) }, "the escaped process goes on")
	// What is recorded of the end, and the output, come from the supervisor beside that.
	var ready provider.Readiness
	eventually(t, func() bool {
		now, err := p.Get(t.Context(), refOf(i))
		if !assert.NoError(t, err) || now.Status != provider.StatusStopped {
			return false
		}
		ready, err = p.Ready(t.Context(), refOf(i))
		return assert.NoError(t, err) && strings.HasSuffix(ready.Detail, "last words")
	}, "it is not said that it has ended")
	assert.Equal(t, provider.Readiness{
		Failed: true,
		Detail: "command ended with exit status 3; its last output:\nlast words",
	}, ready)
}

func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	req := request("headless", command("2s", `
		(setsid sh -c 'echo $$ > escaped; exec sleep 1000' &)
		env -i sh -c 'echo $$ > bare; exec sleep 1000' &
		echo $$ > main
		wait`))
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	left := []int{readPID(t, home(i)+"/main"), readPID(t, home(i)+"/escaped"), readPID(t, home(i)+"/bare")}
	require.NoError(t, syscall.Kill(supervisor(t, root, "headless"), syscall.SIGKILL))

	eventually(t, func() bool {
		i, err := p.Get(t.Context(), refOf(i))
		return assert.NoError(t, err) && i.Status == provider.StatusError
	})
	for _, pid := range left {
		assert.False(t, running(pid), "%d of %v goes on", pid, left)
	}
	broken, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, provider.StatusError, broken.Status, "what broke is not started again")
	assert.Contains(t, broken.Fault, "was killed")
	ready, err := p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	assert.True(t, ready.Failed)
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	requireEmpty(t, root)
}

// The same, but nobody looks before it is deleted.
func TestSupervisorKilledThenDeleted(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "headless", `{"command": ["sh", "-c",
		"(setsid sh -c 'echo $$ > escaped; exec sleep 1000' &) ; exec sleep 1000"]}`)
	escaped := readPID(t, home(i)+"/escaped")
	require.NoError(t, syscall.Kill(supervisor(t, root, "headless"), syscall.SIGKILL))
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.False(t, running(escaped))
	requireEmpty(t, root)
}

// A workspace whose directory somebody removed by hand still has processes, which go by its id.
func TestDirectoryRemovedByHand(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "bare", `{"command": ["sh", "-c", "echo $$ > main; exec sleep 1000"]}`)
	main := readPID(t, home(i)+"/main")
	require.NoError(t, os.RemoveAll(filepath.Join(root, "bare")))
	_, err := p.Get(t.Context(), refOf(i))
	require.ErrorIs(t, err, provider.ErrNotFound)
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.False(t, running(main))
	requireEmpty(t, root)
}
