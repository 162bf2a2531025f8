package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// desk is where somebody sits: a home of their own, with the stock programs of OpenSSH, and what config-ssh has written.
type desk struct {
	t      *testing.T
	env    []string
	home   string
	config string
}

func sit(t *testing.T, c *sdk.Client) desk {
	t.Helper()
	for _, tool := range []string{"ssh", "scp", "sftp", "rsync", "git"} {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not there: scripts/sshd.sh installs it", tool)
		}
		t.Skipf("%s is not there: scripts/sshd.sh installs it", tool)
	}
	d := desk{t: t, home: t.TempDir()}
	d.config = filepath.Join(d.home, ".ssh", "config")
	d.env = append(os.Environ(), "HOME="+d.home, "XDG_CONFIG_HOME="+filepath.Join(d.home, "my config"), "PREWARM_URL="+c.URL.String(),
		"PREWARM_TOKEN="+c.Token, "GIT_SSH_COMMAND=ssh -F "+d.config, "SSH_AUTH_SOCK=")
	d.run(e2etest.Binary(t), "config-ssh")
	return d
}

// command is one that reads d's configuration of ssh: without -F these programs take the home of the system's user.
func (d desk) command(name string, args ...string) *exec.Cmd {
	switch name {
	case "ssh", "scp", "sftp":
		args = append([]string{"-F", d.config}, args...)
	case "rsync":
		args = append([]string{"-e", "ssh -F " + d.config}, args...)
	}
	cmd := exec.CommandContext(d.t.Context(), name, args...)
	cmd.Env, cmd.Dir = d.env, d.home
	cmd.WaitDelay = time.Minute
	return cmd
}

// run is its standard output.
func (d desk) run(name string, args ...string) string {
	d.t.Helper()
	cmd := d.command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(d.t, err, "%s %s: %s", name, args, errs.String())
	require.NotContains(d.t, errs.String(), "Warning", "nobody is asked, and nothing is to be noticed")
	return string(out)
}

// fails returns the status and the standard error.
func (d desk) fails(name string, args ...string) (int, string) {
	d.t.Helper()
	cmd := d.command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	require.Error(d.t, cmd.Run())
	return cmd.ProcessState.ExitCode(), errs.String()
}

// A stock OpenSSH client: commands, terminals, files by three programs, forwarded ports, and a clone of a repository inside.
// The other of two replicas is asked.
func TestSSH(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	apply(t.Context(), t, servers[0].Client, enterable, 1)
	e := enter(t, servers[0].Client, servers[1].Client)
	d, host := sit(t, servers[1].Client), e.name+".prewarm"
	dir := home(show(t, servers[0].Client, e.name))

	require.Equal(t, "well "+e.name+"\n", d.run("ssh", host, "echo well $PREWARM_WORKSPACE"))
	require.Equal(t, dir+"\n", d.run(e2etest.Binary(t), "ssh", e.name, "--", "pwd"))
	require.Equal(t, "a b *\n", d.run(e2etest.Binary(t), "ssh", e.name, "--", "echo", "a b", "*"))
	code, _ := d.fails("ssh", host, "exit 7")
	require.Equal(t, 7, code)
	code, _ = d.fails(e2etest.Binary(t), "ssh", e.name, "--", "kill -9 $$")
	require.Equal(t, 137, code)
	cmd := d.command("ssh", host, "cat; echo no >&2")
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(content), &errs
	out, err := cmd.Output()
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, out))
	require.Equal(t, "no\n", errs.String())

	cmd = d.command("ssh", "-t", host, "stty size; read x; echo got $x")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 44})
	require.NoError(t, err)
	defer terminal.Close()
	seen := make([]byte, 7)
	_, err = io.ReadFull(terminal, seen)
	require.NoError(t, err)
	require.Equal(t, "33 44\r\n", string(seen))
	_, err = terminal.WriteString("it\n")
	require.NoError(t, err)
	rest, _ := io.ReadAll(terminal) // it ends with EIO
	require.Contains(t, string(rest), "got it")
	require.NoError(t, cmd.Wait())

	mine := filepath.Join(d.home, "mine")
	require.NoError(t, os.WriteFile(mine, content, 0o640))
	d.run("scp", "-p", mine, host+":by-scp")
	d.run("rsync", "-a", mine, host+":by-rsync")
	batch := filepath.Join(d.home, "batch")
	require.NoError(t, os.WriteFile(batch, []byte("put mine by-sftp\nget by-sftp back\n"), 0o600))
	d.run("sftp", "-b", batch, host)
	for _, path := range []string{filepath.Join(dir, "by-scp"), filepath.Join(dir, "by-rsync"), filepath.Join(dir, "by-sftp"), filepath.Join(d.home, "back")} {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), path)
	}
	info, err := os.Stat(filepath.Join(dir, "by-scp"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())

	d.run("ssh", host, "git init -q -b main repository && cd repository && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first")
	d.run("git", "clone", "-q", host+":repository", "clone")
	require.Equal(t, "first\n", d.run("git", "-C", "clone", "log", "--format=%s"))
	d.run("git", "-C", "clone", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "second")
	d.run("git", "-C", "clone", "push", "-q", "origin", "HEAD:refs/heads/mine")
	require.Equal(t, "second\n", d.run("ssh", host, "git -C repository log -1 --format=%s mine"))

	// -L leads to a port that is only inside, as far as the client knows, and -R to one that is only here.
	echo := listening(t, afterEnd)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	local := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	cmd = d.command("ssh", "-o", "ExitOnForwardFailure=yes", "-L", fmt.Sprintf("127.0.0.1:%d:127.0.0.1:%d", local, echo),
		"-R", fmt.Sprintf("0:127.0.0.1:%d", echo), host, "echo ready; cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var remote int
	_, err = fmt.Fscanf(stderr, "Allocated port %d for", &remote)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	for _, port := range []int{local, remote} {
		var conn net.Conn
		eventually(t, "the forwarded port", func() bool {
			conn, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			return err == nil
		})
		_, err = conn.Write(content)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), "%d of %d bytes", len(got), len(content))
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())

	eventually(t, "the sessions in the audit log", func() bool {
		log, err := servers[0].Client.Audit(t.Context(), sdk.AuditFilter{Limit: 500})
		require.NoError(t, err)
		began, ended := 0, 0
		for _, entry := range log.Entries {
			if strings.Contains(string(entry.After), "ssh") {
				began += strings.Count(entry.Action, "session.begin")
				ended += strings.Count(entry.Action, "session.end")
			}
		}
		return began > 10 && began == ended
	})
}

// Another key than the agent's is refused, nobody but the claim's user gets a connection, and none survives the claim.
func TestSSH_strangers(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 1)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 1)
	as := users(t, servers[0].URL, owner)
	alice := as("alice", "member")
	e := enter(t, alice)
	host := e.name + ".prewarm"
	for name, c := range map[string]*sdk.Client{"another member": as("bob", "member"), "an auditor": as("eve", "auditor"), "the owner": owner} {
		_, err := c.DialSSH(t.Context(), e.name)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
		_, err = c.SSHHostKey(t.Context(), e.name)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
	}
	code, said := sit(t, as("carol", "member")).fails("ssh", host, "true")
	require.Equal(t, 255, code)
	require.Contains(t, said, "there is no workspace")

	d := sit(t, alice)
	require.Equal(t, "well\n", d.run("ssh", host, "echo well"))
	// The connection is another's: the key is that of the workspace still, and what answers has none.
	wrong := filepath.Join(d.home, "wrong")
	key, err := alice.SSHHostKey(t.Context(), e.name)
	require.NoError(t, err)
	other := e2eKey(t)
	require.NotEqual(t, other, key.HostKey)
	require.NoError(t, os.WriteFile(wrong, []byte(host+" "+other+"\n"), 0o600))
	code, said = d.fails("ssh", "-o", "UserKnownHostsFile="+wrong, host, "true")
	require.Equal(t, 255, code)
	require.Contains(t, said, "Host key verification failed")
	require.NoError(t, os.WriteFile(wrong, nil, 0o600))
	code, said = d.fails("ssh", "-o", "UserKnownHostsFile="+wrong, host, "true")
	require.Equal(t, 255, code)
	require.Contains(t, said, "Host key verification failed")

	// It ends within a second of the release's commit, which the client sees in the moment that it ends: no time is asserted.
	mark := "1001." + fmt.Sprint(time.Now().UnixNano())
	cmd := d.command("ssh", host, "echo begun; exec sleep "+mark)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, len("begun\n")))
	require.NoError(t, err)
	_, err = alice.ReleaseWorkspace(t.Context(), e.name)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.Contains(t, errs.String(), "the claim of workspace "+e.name+" has ended")
	eventually(t, "the process to be gone", func() bool { return !runs(t, mark) })
	code, _ = d.fails("ssh", host, "true")
	require.Equal(t, 255, code)
}

func e2eKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput()
	require.NoError(t, err, string(out))
	public, err := os.ReadFile(path + ".pub")
	require.NoError(t, err)
	return strings.TrimSpace(string(public))
}
