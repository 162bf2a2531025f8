package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Whole environment of a workspace, so that nothing can come along unseen; above all nothing of the server's.
func TestEnvironment(t *testing.T) {
	t.Setenv("PREWARM_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	root := newRoot(t)
	p := open(t, root)
	req := request("env", `{
		"command": ["sh", "-c", "tr '\\0' '\\n' < /proc/self/environ > env.new && mv env.new env; exec sleep 1000"],
		"environment": {"EDITOR": "vi", "PARAM_SIZE": "overridden"}, "port": true}`)
	req.Parameters = map[string]string{"size": "small", "region-a": "x y"}
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Delete(t.Context(), refOf(i))) }()

	dir := filepath.Join(root, "env")
	env := strings.Split(readFile(t, home(i)+"/env"), "\n")
	want := []string{
		"EDITOR=vi",
		"HOME=" + dir + "/home",
		"LANG=C.UTF-8",
		"PARAM_REGION_A=x y",
		"PARAM_SIZE=overridden",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PORT=" + i.Environment["PORT"],
		"PREWARM_DIR=" + dir + "/home",
		"PREWARM_INCARNATION=1",
		"PREWARM_MARK=" + req.Tags.WorkspaceID.String(),
		"PREWARM_PRESET=preset",
		"PREWARM_TEMPLATE=template",
		"PREWARM_WORKSPACE=env",
		"PREWARM_WORKSPACE_ID=" + req.Tags.WorkspaceID.String(),
		"TMPDIR=" + dir + "/tmp",
	}
	if os.Geteuid() == 0 { // it has a user of its own
		want = append(want, "LOGNAME=workspace", "USER=workspace")
	}
	assert.ElementsMatch(t, want, env)
	assert.Equal(t, []provider.Address{
		{Type: "tcp", Address: "127.0.0.1:" + i.Environment["PORT"]}, {Type: "dir", Address: dir + "/home"},
	}, i.Addresses)

	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", supervisor(t, root, "env")))
	require.NoError(t, err)
	assert.NotContains(t, string(content), "secret")
}

func TestReadyWhenThePortListens(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "tcp", fmt.Sprintf(`{"port": true, "readiness": {"tcp": "$PORT"},
		"command": ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; exec %s helper-process listen"]}`, self(t)))
	ready, err := p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	assert.Equal(t, provider.Readiness{Detail: "waiting for " + i.Addresses[0].Address + " to take connections"}, ready)
	require.NoError(t, os.WriteFile(home(i)+"/go", nil, 0o600))
	eventually(t, func() bool {
		ready, err := p.Ready(t.Context(), refOf(i))
		return assert.NoError(t, err) && ready.Ready
	})
}

func TestReadyWhenTheFileIsThere(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/done", nil, 0o600))
	i := create(t, p, "file", `{"readiness": {"file": "out/done"}, "command": ["sleep", "1000"]}`)
	require.NoError(t, os.Symlink(outside, home(i)+"/out"))
	ready, err := p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	waiting := provider.Readiness{Detail: "waiting for the file out/done"}
	assert.Equal(t, waiting, ready, "a link that leads out is no answer")
	require.NoError(t, os.Remove(home(i)+"/out"))
	require.NoError(t, os.Mkdir(home(i)+"/out", 0o700))
	require.NoError(t, os.WriteFile(home(i)+"/out/done", nil, 0o600))
	ready, err = p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	assert.Equal(t, provider.Readiness{Ready: true}, ready)
}

func TestReadyWhenSetupIsOver(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "setup", `{"readiness": {"setup": true}, "command": ["sleep", "1000"],
		"setup": ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done"]}`)
	ready, err := p.Ready(t.Context(), refOf(i))
	require.NoError(t, err)
	assert.Equal(t, provider.Readiness{Detail: "waiting for setup to end"}, ready)
	require.NoError(t, os.WriteFile(home(i)+"/go", nil, 0o600))
	eventually(t, func() bool {
		ready, err := p.Ready(t.Context(), refOf(i))
		return assert.NoError(t, err) && ready.Ready
	})
}

func TestSetupFails(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "broken", `{"setup": ["sh", "-c", "echo no such branch >&2; exit 4"],
		"command": ["sh", "-c", "touch ran; sleep 1000"]}`)
	var ready provider.Readiness
	eventually(t, func() bool {
		var err error
		ready, err = p.Ready(t.Context(), refOf(i))
		return assert.NoError(t, err) && ready.Failed && strings.Contains(ready.Detail, "\n") // with its output
	})
	assert.False(t, ready.Ready)
	assert.Equal(t, "setup ended with exit status 4; its last output:\nno such branch", ready.Detail)
	i, err := p.Get(t.Context(), refOf(i))
	require.NoError(t, err)
	assert.Equal(t, provider.StatusError, i.Status)
	assert.Equal(t, ready.Detail, i.Fault, "a create that returns after the failure has the output too")
	assert.NoFileExists(t, home(i)+"/ran")
}

func TestCommandCannotBeStarted(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	i := create(t, p, "missing", `{"command": ["no-such-program"]}`)
	assert.Equal(t, provider.StatusError, i.Status)
	assert.Contains(t, i.Fault, `program "no-such-program" is not in the workspace's PATH`)
	i = create(t, p, "directory", `{"command": ["/etc"]}`)
	assert.Equal(t, provider.StatusError, i.Status)
	assert.Contains(t, i.Fault, "permission denied")
}

func TestPortsAreTheirOwn(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	a, b := open(t, root), open(t, root)
	var all sync.WaitGroup
	instances := make([]provider.Instance, 20)
	for n := range instances {
		all.Go(func() {
			p := a
			if n%2 == 1 {
				p = b
			}
			var err error
			req := request(fmt.Sprintf("port-%d", n), `{"port": true, "command": ["sleep", "1000"]}`)
			instances[n], err = p.Create(t.Context(), req)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	seen := map[string]string{}
	for _, i := range instances {
		port := i.Environment["PORT"]
		require.NotEmpty(t, port)
		assert.NotContains(t, seen, port)
		seen[port] = i.Name
		owner, err := os.Readlink(filepath.Join(root, ".prewarm", "ports", port))
		require.NoError(t, err)
		assert.Equal(t, i.Name, owner)
	}
	for _, i := range instances {
		again, err := b.Get(t.Context(), refOf(i))
		require.NoError(t, err)
		assert.Equal(t, i.Environment, again.Environment, "it keeps its port")
		require.NoError(t, b.Delete(t.Context(), refOf(i)))
	}
	requireEmpty(t, root)
}
