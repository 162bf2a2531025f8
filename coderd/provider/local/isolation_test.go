package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
)

// All tests of this package run again as a user who is not root: with a user namespace, and where there can be none.
func TestAsUser(t *testing.T) {
	t.Parallel()
	asUser(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
}

func TestAsUserWithoutNamespaces(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	asUser(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, "helper-process", "without-namespaces", root)
}

func asUser(t *testing.T, attributes *syscall.SysProcAttr, before ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this is a user who is not root, so that the other tests show the same")
	}
	program := self(t)
	args := []string{"-test.timeout=5m", "-test.parallel=4", "-test.skip=^TestDocumentedSpec$"} // its file may be private
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	if len(before) > 0 {
		args = append(append(before, program), args...)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+public(t), "HOME=/")
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	t.Logf("%s", said)
}

// isolated says whether this machine, and this user, can isolate workspaces.
func isolated(t *testing.T) bool {
	t.Helper()
	p := open(t, newRoot(t))
	return p.Isolated() == nil
}

// attacks are ways to leave a process behind. Each begins one whose last argument is MARK, and may say so in a file.
var attacks = map[string]string{
	"new session":          `setsid -f sleep MARK`,
	"empty environment":    `setsid -f env -i sleep MARK`,
	"double fork":          `(setsid sh -c '(sleep MARK &) &' &)`,
	"stopped":              `setsid -f sh -c 'sleep MARK & sleep 0.1; kill -STOP $! $$'`,
	"renamed":              `cp "$(command -v sleep)" daemon && chmod +x daemon && setsid -f env -i ./daemon MARK`,
	"ignores signals":      `setsid -f sh -c 'trap "" TERM HUP INT; while :; do env -i sleep MARK; done'`,
	"namespaces":           `setsid -f sh -c 'unshare --user --map-root-user --pid --fork --mount-proc sleep MARK || sleep MARK'`,
	"elsewhere":            `cd / && setsid -f env -i sleep MARK`,
	"breeds":               `setsid -f env -i sh -c 'n=0; while [ $n -lt 2000 ]; do n=$((n+1)); env -i sleep MARK & done'`,
	"stops its supervisor": `setsid -f env -i sh -c 'sleep MARK & kill -STOP "$0"; exec sleep MARK' "$SUPERVISOR"`,
	"kills all it can":     `setsid -f env -i sh -c 'sleep MARK & kill -9 -1'; setsid -f env -i sleep MARK`,
	"kills its supervisor": `setsid -f env -i sleep MARK; kill -9 "$SUPERVISOR" 1`,
}

func stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") T ")
}

// marked are the processes that have a mark as an argument.
func marked(mark string) []string {
	var found []string
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, e := range entries {
		args, _ := os.ReadFile(e)
		words := strings.Split(string(args), "\x00")
		if slices.Contains(words, mark) {
			found = append(found, filepath.Base(filepath.Dir(e))+": "+strings.Join(words, " "))
		}
	}
	return found
}

// Nothing that a workspace starts lives after it: not after Delete, Reset or Stop, not after its command ended by itself, and
// not if its supervisor is killed.
func TestNothingOutlivesItsWorkspace(t *testing.T) {
	t.Parallel()
	confined := isolated(t)
	ends := map[string]func(t *testing.T, p *local.Provider, root string, i provider.Instance){
		"delete": func(t *testing.T, p *local.Provider, _ string, i provider.Instance) {
			require.NoError(t, p.Delete(t.Context(), refOf(i)))
		},
		"stop": func(t *testing.T, p *local.Provider, _ string, i provider.Instance) {
			require.NoError(t, p.Stop(t.Context(), refOf(i)))
		},
		"reset": func(t *testing.T, p *local.Provider, _ string, i provider.Instance) {
			next := request(i.Name, idle)
			next.Tags = i.Tags
			next.Tags.Incarnation++
			_, err := p.Reset(t.Context(), next)
			require.NoError(t, err)
		},
		"kill": func(t *testing.T, p *local.Provider, root string, i provider.Instance) {
			if pid := supervisor(t, root, i.Name); running(pid) {
				if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) { // an attack ends it meanwhile
					require.NoError(t, err)
				}
			}
			eventually(t, func() bool {
				now, err := p.Get(t.Context(), refOf(i))
				return assert.NoError(t, err) && now.Status != provider.StatusRunning
			})
		},
	}
	for attack, script := range attacks {
		for end, do := range ends {
			if !confined && (end == "reset" || end == "kill" || attack == "kills its supervisor" || attack == "kills all it can") {
				continue // without namespaces there is no promise for these; reuse is refused (TestResetWantsIsolation)
			}
			t.Run(attack+", "+end, func(t *testing.T) {
				t.Parallel()
				root := newRoot(t)
				p := open(t, root)
				i := create(t, p, "attacked", `{"command": ["sleep", "1000"], "stop_grace": "50ms"}`)
				mark := fmt.Sprintf("1000%09d", rand.IntN(1e9))
				script := strings.ReplaceAll(script, "MARK", mark)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					_, err := p.Exec(ctx, refOf(i), provider.ExecRequest{
						Command: []string{"sh", "-c", script + "\n:"},
						Env:     map[string]string{"SUPERVISOR": fmt.Sprint(supervisor(t, root, i.Name))},
					})
					done <- err
				}()
				if attack == "stops its supervisor" && !confined { // nobody says that the command has ended
					eventually(t, func() bool { return stopped(supervisor(t, root, i.Name)) })
					cancel()
					<-done
				} else {
					require.NoError(t, <-done)
				}
				cancel()
				if !strings.HasPrefix(attack, "kills") {
					eventually(t, func() bool { return len(marked(mark)) > 0 })
				}
				do(t, p, root, i)
				if end == "kill" { // nobody waits for what the kernel ends with its supervisor
					eventually(t, func() bool { return len(marked(mark)) == 0 })
				}
				assert.Empty(t, marked(mark))
			})
		}
	}
}

// The same of what the command itself leaves.
func TestNothingOutlivesItsCommand(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	mark := fmt.Sprintf("1000%09d", rand.IntN(1e9))
	i := create(t, p, "ends", command("50ms", "setsid -f env -i sleep "+mark+"; (env -i setsid sleep "+mark+" &); exit 0"))
	eventually(t, func() bool {
		now, err := p.Get(t.Context(), refOf(i))
		return assert.NoError(t, err) && now.Status == provider.StatusStopped
	})
	eventually(t, func() bool { return len(marked(mark)) == 0 })
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
}

// Where what a workspace leaves may live on, it is not made like new for another user.
func TestResetWantsIsolation(t *testing.T) {
	t.Parallel()
	if isolated(t) {
		t.Skip("this machine isolates workspaces, so that a reset is allowed; TestAsUserWithoutNamespaces runs this where it does not")
	}
	p := open(t, newRoot(t))
	i := create(t, p, "used", idle)
	next := request("used", idle)
	next.Tags = i.Tags
	next.Tags.Incarnation++
	_, err := p.Reset(t.Context(), next)
	require.ErrorContains(t, err, "refuses the namespaces")
	assert.True(t, provider.IsPermanent(err))
}

// Workspaces of a server that is root are not root, and reach nothing of it or of one another.
func TestWorkspacesOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is a user who is not root, whose workspaces are not either")
	}
	root := newRoot(t)
	p := open(t, root)
	a, b := create(t, p, "a", idle), create(t, p, "b", idle)
	secret := filepath.Join(root, ".prewarm", "site")
	run := func(i provider.Instance, script string) string {
		var out bytes.Buffer
		_, err := p.Exec(t.Context(), refOf(i), provider.ExecRequest{
			Command: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out,
		})
		require.NoError(t, err)
		return strings.TrimSpace(out.String())
	}
	uid := map[string]string{}
	for _, i := range []provider.Instance{a, b} {
		uid[i.Name] = run(i, "id -u")
		info, err := os.Stat(home(i))
		require.NoError(t, err)
		owner, _ := info.Sys().(*syscall.Stat_t)
		assert.Equal(t, uid[i.Name], fmt.Sprint(owner.Uid))
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		// Without a name of its own there is no ssh, and no git by it.
		assert.Equal(t, "workspace workspace workspace "+home(i), run(i, `echo $(id -un) $(id -gn) $USER ~workspace`))
		assert.Equal(t, "root "+uid[i.Name], run(i, `echo $(id -un 0) $(stat -c %u ~)`))
		assert.Contains(t, run(i, `echo x >> /etc/passwd || echo no; mv /etc/passwd /etc/old || echo no`), "no\n")
	}
	assert.NotEqual(t, "0", uid["a"])
	assert.NotEqual(t, uid["a"], uid["b"])
	assert.Equal(t, home(a), run(a, "echo x > file; rm file; pwd"))

	inB := fmt.Sprintf("/proc/%d/root%s", supervisor(t, root, "b"), home(b))
	for _, attack := range []string{
		"cat " + secret, "ls " + home(b), "ls " + inB, "cat ../state.json", "cat ../workspace.json", "echo > ../state.json",
		"touch " + root + "/x", "cat /etc/shadow", "chown 0 .", "umount " + filepath.Dir(filepath.Dir(home(a))), "umount /proc",
		fmt.Sprintf("kill -9 %d", supervisor(t, root, "b")), fmt.Sprintf("kill -9 %d", os.Getpid()), "kill -9 1 && sleep 60",
		"cat /proc/1/environ", "setpriv --reuid=0 true", "unshare --map-root-user --mount umount " + filepath.Dir(filepath.Dir(home(a))),
	} {
		var out bytes.Buffer
		code, err := p.Exec(t.Context(), refOf(a), provider.ExecRequest{
			Command: []string{"sh", "-c", attack}, Stdout: &out, Stderr: &out,
		})
		require.NoError(t, err)
		assert.NotZero(t, code, "%s: %s", attack, out.String())
	}
	for _, i := range []provider.Instance{a, b} {
		now, err := p.Get(t.Context(), refOf(i))
		require.NoError(t, err)
		assert.Equal(t, provider.StatusRunning, now.Status)
	}
	assert.Equal(t, "ok", run(a, "echo ok > /dev/stdout"))

	next := request("a", idle)
	next.Tags = a.Tags
	next.Tags.Incarnation++
	_, err := p.Reset(t.Context(), next)
	require.NoError(t, err)
	assert.NotEqual(t, uid["a"], run(a, "id -u"), "what the first left in /tmp is not the second's")
}

// An owner can allow workspaces to be root.
func TestRootIsAllowed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is a user who is not root")
	}
	root := newRoot(t)
	allowed, err := local.New(local.Options{Root: root, AllowRoot: true})
	require.NoError(t, err)
	i := create(t, allowed, "root", idle)
	var out bytes.Buffer
	_, err = allowed.Exec(t.Context(), refOf(i), provider.ExecRequest{Command: []string{"id", "-u"}, Stdout: &out})
	require.NoError(t, err)
	assert.Equal(t, "0\n", out.String())

	// Taken back, nothing more runs in it; it can be deleted.
	p := open(t, root)
	_, err = p.Exec(t.Context(), refOf(i), provider.ExecRequest{Command: []string{"id", "-u"}})
	require.ErrorContains(t, err, "release it and claim another")
	require.NoError(t, p.Stop(t.Context(), refOf(i)))
	require.ErrorContains(t, p.Start(t.Context(), refOf(i)), "release it and claim another")
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
}

// A server that is root, where there are no namespaces, runs nothing.
func TestRootWantsIsolation(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is a user who is not root, whose workspaces are not either")
	}
	root := newRoot(t)
	wanted, err := json.Marshal(request("unwanted", idle))
	require.NoError(t, err)
	server := exec.CommandContext(t.Context(), os.Args[0], "helper-process", "without-namespaces-as-root", os.Args[0],
		"helper-process", "create", root)
	server.Stdin = bytes.NewReader(wanted)
	said, err := server.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "cannot run workspaces as other users")
	require.Contains(t, string(said), "allow_root: true")
	require.NoDirExists(t, filepath.Join(root, "unwanted"))
}

// User ids are of their range, and none is given to two.
func TestUIDs(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is a user who is not root, whose workspaces have no user ids of their own")
	}
	p, err := local.New(local.Options{Root: newRoot(t), Uids: local.Uids{First: 1_800_000_001, Last: 1_800_000_003}})
	require.NoError(t, err)
	owner := func(i provider.Instance) uint32 {
		info, err := os.Stat(home(i))
		require.NoError(t, err)
		s, _ := info.Sys().(*syscall.Stat_t)
		return s.Uid
	}
	keeps := create(t, p, "keeps", idle)
	for n := range 8 {
		i := create(t, p, fmt.Sprintf("goes-%d", n), idle)
		require.NotEqual(t, owner(keeps), owner(i))
		require.Contains(t, []uint32{1_800_000_001, 1_800_000_002, 1_800_000_003}, owner(i))
		require.NoError(t, p.Delete(t.Context(), refOf(i)))
	}
	create(t, p, "second", idle)
	create(t, p, "third", idle)
	_, err = p.Create(t.Context(), request("fourth", idle))
	require.ErrorContains(t, err, "none of uids 1800000001-1800000003 is free")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	opts, err := local.ParseConfig([]byte(`{"root": "/r", "allow_root": true, "uids": "5000-5999"}`))
	require.NoError(t, err)
	assert.Equal(t, local.Options{Root: "/r", AllowRoot: true, Uids: local.Uids{First: 5000, Last: 5999}}, opts)
	for _, wrong := range []string{
		`{"uids": "5000"}`, `{"uids": "0-9"}`, `{"uids": "9-5"}`, `{"uids": "1-4294967295"}`, `{"uids": "a-b"}`, `{"surprise": 1}`,
	} {
		_, err := local.ParseConfig([]byte(wrong))
		require.Error(t, err, wrong)
	}
}

// A command whose server is killed ends, as one does whose client goes away.
func TestExecEndsWithItsServer(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	i := create(t, p, "exec", idle)
	mark := fmt.Sprintf("1000%09d", rand.IntN(1e9))
	server := exec.CommandContext(context.Background(), os.Args[0], "helper-process", "exec", root, i.Name, "sleep", mark)
	server.Stdout = io.Discard
	require.NoError(t, server.Start())
	eventually(t, func() bool { return len(marked(mark)) == 2 }) // this client's arguments have it too
	require.NoError(t, server.Process.Kill())
	require.Error(t, server.Wait())
	eventually(t, func() bool { return len(marked(mark)) == 0 })
}

// What is in a workspace finds neither the server's directories nor another workspace, whatever their modes and whoever its
// user is, and no way to more rights. Where there are no namespaces, nothing hides them from the server's user.
func TestServerIsHidden(t *testing.T) {
	t.Parallel()
	data := filepath.Join(public(t), "data")
	require.NoError(t, os.Mkdir(data, 0o755))
	secret := filepath.Join(data, "owner-token")
	require.NoError(t, os.WriteFile(secret, []byte("pw_secret"), 0o644))
	p, err := local.New(local.Options{Root: filepath.Join(data, "local"), Private: []string{data}})
	require.NoError(t, err)
	a, b := create(t, p, "a", idle), create(t, p, "b", idle)
	pid := supervisor(t, filepath.Join(data, "local"), "b")
	for _, attack := range []string{
		"cat " + secret, "ls " + home(b), "cat /proc/" + fmt.Sprint(os.Getpid()) + "/environ", "kill -0 " + fmt.Sprint(pid),
		"grep -q '^NoNewPrivs:.0' /proc/self/status", "grep -q '^CapEff:.*[1-9a-f]' /proc/self/status",
		"umount " + data + " && cat " + secret, "unshare --map-root-user --mount umount " + data,
	} {
		var out bytes.Buffer
		code, err := p.Exec(t.Context(), refOf(a), provider.ExecRequest{
			Command: []string{"sh", "-c", attack}, Stdout: &out, Stderr: &out,
		})
		require.NoError(t, err)
		if p.Isolated() == nil {
			assert.NotZero(t, code, "%s: %s", attack, out.String())
			assert.NotContains(t, out.String(), "pw_secret")
		} else if attack == "cat "+secret {
			assert.Equal(t, "pw_secret", out.String(), "docs/SECURITY.md says so")
		}
	}
}
