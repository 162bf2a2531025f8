package hosts_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
)

const token = "a-secret-of-this-test"

var callback = provider.Callback{CallbackURL: "http://127.0.0.1:3000/api/v1/instance/status", Token: token, CABundle: []byte("pem\n")}

var built struct {
	sync.Once
	path string
	err  error
}

// inner is the program that stands for the prewarm binary: static, which a test binary need not be.
func inner(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		built.path = filepath.Join(folder, "inner")
		build := exec.Command("go", "build", "-o", built.path, "./testdata/inner")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = xerrors.Errorf("build: %s: %w", out, err)
		}
	})
	require.NoError(t, built.err)
	return built.path
}

func withAgent(t *testing.T, f *hoststest.Fleet) *hosts.Provider {
	t.Helper()
	return open(t, f, map[string]any{"agent_binary": inner(t)})
}

func agentOn(m *hoststest.Machine, name, spec string) provider.CreateRequest {
	req := requestOn(m, name, spec)
	req.Callback = callback
	return req
}

// agents are the agents that run on a machine, by what they were started for.
func agents(m *hoststest.Machine, req provider.CreateRequest) (pids []int) {
	for pid, args := range m.Processes("PREWARM_MARK=" + req.Tags.WorkspaceID.String()) {
		if strings.HasPrefix(args, m.Home+"/.prewarm/agent/") && strings.HasSuffix(args, " agent ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// begun waits until the agent has begun for the n-th time in the workspace, and returns what it was given.
func begun(t *testing.T, m *hoststest.Machine, n string) string {
	t.Helper()
	var said []byte
	require.Eventually(t, func() bool {
		var err error
		said, err = os.ReadFile(filepath.Join(m.Home, ".prewarm/workspace/begun-"+n))
		return err == nil
	}, deadline, 10*time.Millisecond)
	return strings.TrimSpace(string(said))
}

// The agent starts when the machine is prepared, and outlives the session. Its token is in a file that the machine's user
// alone may read, and in no argument and no environment. It is copied once for all workspaces, and gone with each.
func TestAgent_onAMachine(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], withAgent(t, f)
	req := agentOn(m, "agent", `{"prepare": "true", "reset": "true"}`)
	create(t, p, req)
	require.True(t, becomes(t, p, req).Ready)
	require.Equal(t, "http://127.0.0.1:3000 "+token+" agent pem", begun(t, m, "0"))
	m.Cut(t)
	create(t, withAgent(t, f), req) // which starts no second one
	require.True(t, becomes(t, p, req).Ready)
	require.Len(t, agents(m, req), 1)

	dir := filepath.Join(m.Home, ".prewarm")
	for path, mode := range map[string]os.FileMode{"run": 0o700, "run/agent-token": 0o600, "run/agent": 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
	for pid, args := range m.Processes("") {
		require.NotContains(t, args, token)
		environment, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		require.NotContains(t, string(environment), token)
	}
	programs := func() (list []os.FileInfo) {
		files, err := filepath.Glob(filepath.Join(dir, "agent", "*"))
		require.NoError(t, err)
		for _, file := range files {
			info, err := os.Stat(file)
			require.NoError(t, err)
			list = append(list, info)
		}
		return list
	}
	first := programs()
	require.Len(t, first, 1)

	// The next incarnation has an agent of its own, and nothing of the first is left.
	next := req
	next.Tags.Incarnation, next.Callback.Token = 2, "another-secret"
	_, err := p.Reset(t.Context(), next)
	require.NoError(t, err)
	require.True(t, becomes(t, p, next).Ready)
	require.Equal(t, "http://127.0.0.1:3000 another-secret agent pem", begun(t, m, "0"))
	require.Empty(t, m.Processes("PREWARM_MARK="+req.Tags.WorkspaceID.String()+".1"))
	require.Len(t, agents(m, next), 1)
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	require.Empty(t, m.Processes("PREWARM_MARK="))
	require.NoDirExists(t, filepath.Join(dir, "run"))

	second := agentOn(m, "second", `{"reset": "true"}`)
	create(t, p, second)
	begun(t, m, "0")
	require.True(t, os.SameFile(first[0], programs()[0]), "it was copied once")
	require.NoError(t, p.Delete(t.Context(), ref(second)))
}

// An agent that was killed, or whose machine was restarted, is started again by whoever asks: for readiness, or by listing
// the machines, which happens to claimed workspaces too. What it left behind does not count as an agent that runs.
func TestAgent_isStartedAgain(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], withAgent(t, f)
	req := agentOn(m, "again", `{"reset": "true"}`)
	create(t, p, req)
	require.True(t, becomes(t, p, req).Ready)
	begun(t, m, "0")
	for _, pid := range agents(m, req) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.Eventually(t, func() bool {
		state, err := p.Ready(t.Context(), ref(req))
		require.NoError(t, err)
		require.False(t, state.Failed, state.Detail)
		return len(agents(m, req)) == 1
	}, deadline, 20*time.Millisecond)
	begun(t, m, "1")

	m.Reboot(t)
	require.Empty(t, agents(m, req))
	require.Eventually(t, func() bool {
		_, err := p.List(t.Context(), req.Tags.Installation)
		return err == nil && len(agents(m, req)) == 1
	}, deadline, 20*time.Millisecond)
	begun(t, m, "2")
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	require.Empty(t, m.Processes("PREWARM_MARK="))
}

// An agent that ends by itself fails its workspace, with its last words.
func TestAgent_thatEnds(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], withAgent(t, f)
	req := agentOn(m, "ends", `{"prepare": "echo no server >exit", "reset": "true"}`)
	create(t, p, req)
	var state provider.Readiness
	require.Eventually(t, func() bool { // until then it runs, which is all that the machine knows
		var err error
		state, err = p.Ready(t.Context(), ref(req))
		require.NoError(t, err)
		return state.Failed
	}, deadline, 20*time.Millisecond)
	require.Contains(t, state.Detail, "its agent exited with 3: the agent ends: no server")
	require.NoError(t, p.Delete(t.Context(), ref(req)))
}

// A program that a user changed is not what the next workspace runs, of whichever incarnation: the reset removes it, and it is
// copied again.
func TestAgent_thatWasChanged(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], withAgent(t, f)
	change := func() {
		files, err := filepath.Glob(filepath.Join(m.Home, ".prewarm/agent/*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.Remove(files[0]))
		programtest.Write(t, files[0], []byte("#!/bin/sh\ntouch $HOME/evil\n"), 0o700)
	}
	req := agentOn(m, "changed", `{"reset": "true"}`)
	create(t, p, req)
	begun(t, m, "0")
	change()
	next := req
	next.Tags.Incarnation = 2
	_, err := p.Reset(t.Context(), next)
	require.NoError(t, err)
	require.True(t, becomes(t, p, next).Ready)
	begun(t, m, "0")
	change()
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	second := agentOn(m, "second", `{"reset": "true"}`)
	create(t, p, second)
	begun(t, m, "0")
	require.NoFileExists(t, filepath.Join(m.Home, "evil"))
	require.NoError(t, p.Delete(t.Context(), ref(second)))
}

// A program that cannot run on the machine is refused for good, and it is said why; so is a server that the machine would
// look for on itself. Nothing is made then.
func TestAgent_isRefused(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m := f.Machines[0]
	other := filepath.Join(t.TempDir(), "other")
	build := exec.Command("go", "build", "-o", other, "./testdata/inner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+map[bool]string{true: "arm64", false: "amd64"}[runtime.GOARCH == "amd64"])
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	away := callback
	away.CallbackURL = "http://localhost:3000/api/v1/instance/status"
	for _, tc := range []struct {
		settings map[string]any
		callback provider.Callback
		says     []string
	}{
		{map[string]any{"agent_binary": other}, callback, []string{"machine m00 (" + m.Address() + "): ", "let agent_binary name one for that"}},
		{map[string]any{"agent_binary": "/bin/sh"}, callback, []string{"CGO_ENABLED=0"}},
		{map[string]any{"agent_binary": "/etc/passwd"}, callback, []string{"read program"}},
		{map[string]any{"machines": f.At("192.0.2.1")}, away, []string{"--access-url", "callback_host", "http://localhost:3000"}},
	} {
		p := open(t, f, tc.settings)
		req := agentOn(m, "refused", `{"reset": "true"}`)
		req.Callback = tc.callback
		_, err := p.Create(t.Context(), req)
		for _, says := range tc.says {
			require.ErrorContains(t, err, says)
		}
		require.True(t, provider.IsPermanent(err), "%v", err)
		require.Equal(t, provider.MachineUnused, states(t, open(t, f, nil))[m.Name].State)
	}
	for settings, says := range map[string]string{
		`{"agent_binary": "prewarm"}`: "agent_binary: \"prewarm\" is not the absolute path", `{"callback_host": "http://x"}`: "host:port",
	} {
		var with map[string]any
		require.NoError(t, json.Unmarshal([]byte(settings), &with))
		_, err := hosts.ParseConfig(f.Config(t, with))
		require.ErrorContains(t, err, says)
	}
}

// A copy that is cut off leaves nothing that would be run; the next create copies it whole.
func TestAgent_copyIsCutOff(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 1)
	m, p := f.Machines[0], withAgent(t, f)
	req := agentOn(m, "cut", `{"reset": "true"}`)
	for n := range rounds(t, 5) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n+1)*cutOff/4)
		_, _ = p.Create(ctx, req)
		cancel()
		m.Cut(t)
	}
	require.Eventually(t, func() bool {
		_, err := p.Create(t.Context(), req)
		return err == nil
	}, deadline, 20*time.Millisecond)
	require.True(t, becomes(t, p, req).Ready)
	begun(t, m, "0")
	require.NoError(t, p.Delete(t.Context(), ref(req)))
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(m.Home, ".prewarm/agent/*"))
		return err == nil && len(files) == 1
	}, deadline, 20*time.Millisecond, "what was cut off is gone")
}
