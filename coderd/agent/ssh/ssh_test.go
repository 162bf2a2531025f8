package ssh_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/pkg/sftp"
	"github.com/stretchr/testify/require"
	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/coderd/agent/processes"
	"github.com/prewarm-dev/prewarm/coderd/agent/ssh"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// workspace is where SSH is served.
type workspace struct {
	table *processes.Table
	dir   string
	http  *httptest.Server
	key   gossh.PublicKey
}

func serve(t *testing.T) *workspace {
	t.Helper()
	w := &workspace{dir: t.TempDir()}
	w.table = processes.New(processes.Options{
		Env: []string{"PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh"}, Dir: w.dir, Clock: quartz.NewReal(), Log: slog.Make(), Grace: time.Second,
	})
	t.Cleanup(w.table.Close)
	server, err := ssh.New(w.table, slog.Make())
	require.NoError(t, err)
	w.http = httptest.NewServer(server.Handler())
	t.Cleanup(w.http.Close)
	resp, err := http.Get(w.http.URL + "/ssh/host-key")
	require.NoError(t, err)
	defer resp.Body.Close()
	var said sdk.SSHHostKey
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&said))
	w.key, _, _, _, err = gossh.ParseAuthorizedKey([]byte(said.HostKey))
	require.NoError(t, err)
	require.Equal(t, gossh.KeyAlgoED25519, w.key.Type())
	return w
}

func (w *workspace) dial(t *testing.T, name string) (*gossh.Client, error) {
	t.Helper()
	stream, err := sdk.DialStream(t.Context(), quartz.NewReal(), w.http.Client(), w.http.URL+"/ssh", http.Header{sdk.ClaimHeader: {"one"}})
	require.NoError(t, err)
	t.Cleanup(stream.Cut)
	conn, channels, requests, err := gossh.NewClientConn(stream, "w", &gossh.ClientConfig{
		User: name, HostKeyCallback: gossh.FixedHostKey(w.key), BannerCallback: func(text string) error { t.Log(text); return nil },
	})
	if err != nil {
		return nil, err
	}
	client := gossh.NewClient(conn, channels, requests)
	t.Cleanup(func() { _ = client.Close() })
	return client, nil
}

func (w *workspace) client(t *testing.T) *gossh.Client {
	t.Helper()
	client, err := w.dial(t, sdk.SSHUser)
	require.NoError(t, err)
	return client
}

func session(t *testing.T, client *gossh.Client) *gossh.Session {
	t.Helper()
	s, err := client.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Commands have the directory and the environment of the workspace, an input and two outputs, and a status.
func TestCommands(t *testing.T) {
	t.Parallel()
	w := serve(t)
	client := w.client(t)
	s := session(t, client)
	require.NoError(t, s.Setenv("A", "b"))
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("in"), &out, &errs
	err := s.Run(`pwd; echo $A; cat; echo no >&2; exit 3`)
	var exit *gossh.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, []any{3, w.dir + "\nb\nin", "no\n"}, []any{exit.ExitStatus(), out.String(), errs.String()})

	// Without a command it is a shell that reads its input.
	s = session(t, client)
	out.Reset()
	s.Stdin, s.Stdout = strings.NewReader("echo $((6 * 7))\nexit 4\n"), &out
	require.NoError(t, s.Shell())
	require.ErrorAs(t, s.Wait(), &exit)
	require.Equal(t, []any{4, "42\n"}, []any{exit.ExitStatus(), out.String()})

	// Much output comes whole.
	s = session(t, client)
	big, err := s.Output("head -c 5000000 /dev/zero")
	require.NoError(t, err)
	require.Len(t, big, 5000000)

	// A signal reaches the command and its children.
	s = session(t, client)
	stdout, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start("echo begun; sleep 1000; echo never"))
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, s.Signal(gossh.SIGTERM))
	require.ErrorAs(t, s.Wait(), &exit)
	require.Equal(t, 143, exit.ExitStatus())
}

// A terminal has a size, which can change; it is lost with the connection, and so is what runs on it.
func TestTerminal(t *testing.T) {
	t.Parallel()
	signal.Ignore(unix.SIGHUP) // as an agent does that nohup started
	w := serve(t)
	client := w.client(t)
	s := session(t, client)
	require.NoError(t, s.RequestPty("dumb", 11, 22, gossh.TerminalModes{}))
	in, err := s.StdinPipe()
	require.NoError(t, err)
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start(`stty -echo; stty size; echo $TERM; trap 'echo now $(stty size)' WINCH; echo $$; while :; do read x; done`))
	lines := bufio.NewReader(out)
	for _, want := range []string{"11 22\r\n", "dumb\r\n"} {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	pid, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, s.WindowChange(33, 44))
	_, err = io.WriteString(in, "\n")
	require.NoError(t, err)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "now 33 44\r\n", line)
	require.DirExists(t, "/proc/"+strings.TrimSpace(pid))
	require.NoError(t, client.Close())
	require.Eventually(t, func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(pid))
		return os.IsNotExist(err)
	}, time.Minute, 10*time.Millisecond)
}

// Files go both ways over sftp, from the directory of the workspace on.
func TestSFTP(t *testing.T) {
	t.Parallel()
	w := serve(t)
	files, err := sftp.NewClient(w.client(t))
	require.NoError(t, err)
	f, err := files.Create("up")
	require.NoError(t, err)
	content := bytes.Repeat([]byte("0123456789"), 100000)
	_, err = f.ReadFrom(bytes.NewReader(content))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	there, err := os.ReadFile(filepath.Join(w.dir, "up"))
	require.NoError(t, err)
	require.Equal(t, content, there)
	_, err = files.Open("/no/such")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, files.Close())
}

// echo is a port at which everything comes back, until the client has said its last.
func echo(t *testing.T, l net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
		}
	}()
}

// talk says something, ends its side, and reads to the end.
func talk(t *testing.T, conn net.Conn) {
	t.Helper()
	go func() {
		_, _ = conn.Write(bytes.Repeat([]byte("hello"), 200000))
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	back, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Len(t, back, 1000000)
	_ = conn.Close() // the other side may have closed it already
}

// Ports are forwarded both ways, and what listens inside listens on loopback, until it is cancelled or the client is gone.
func TestForwarding(t *testing.T) {
	t.Parallel()
	w := serve(t)
	client := w.client(t)
	inside, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	echo(t, inside)
	conn, err := client.Dial("tcp", inside.Addr().String())
	require.NoError(t, err)
	talk(t, conn)
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	echo(t, socket)
	conn, err = client.Dial("unix", socket.Addr().String())
	require.NoError(t, err)
	talk(t, conn)
	require.NoError(t, inside.Close())
	_, err = client.Dial("tcp", inside.Addr().String())
	require.ErrorContains(t, err, "refused")

	back, err := client.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	echo(t, back)
	port := back.Addr().(*net.TCPAddr).Port
	conn, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	talk(t, conn)
	require.NoError(t, back.Close())
	_, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.ErrorContains(t, err, "refused")

	back, err = client.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	held, err := net.Dial("tcp", back.Addr().String())
	require.NoError(t, err)
	_, err = back.Accept()
	require.NoError(t, err)
	require.NoError(t, client.Close())
	_, err = held.Read(make([]byte, 1))
	require.Error(t, err, "it ends with the client")
	require.Eventually(t, func() bool { _, err := net.Dial("tcp", back.Addr().String()); return err != nil }, time.Minute, 10*time.Millisecond)
}

// Keys stay with the client: what runs inside asks its agent, over a socket that is gone with the session.
func TestAgentOfKeys(t *testing.T) {
	t.Parallel()
	w := serve(t)
	client := w.client(t)
	keys := agent.NewKeyring()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	require.NoError(t, keys.Add(agent.AddedKey{PrivateKey: private, Comment: "mine"}))
	require.NoError(t, agent.ForwardToAgent(client, keys))
	s := session(t, client)
	require.NoError(t, agent.RequestAgentForwarding(s))
	in, err := s.StdinPipe()
	require.NoError(t, err)
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start("echo $SSH_AUTH_SOCK; cat"))
	path, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	path = strings.TrimSpace(path)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	list, err := agent.NewClient(conn).List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "mine", list[0].Comment)
	info, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, in.Close())
	require.NoError(t, s.Wait())
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Dir(path)); return os.IsNotExist(err) }, time.Minute, 10*time.Millisecond)
}

// The user is the agent's, or where the agent is root any that there is; and nothing is without bounds.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := serve(t)
	me, err := user.Current()
	require.NoError(t, err)
	_, err = w.dial(t, me.Username)
	require.NoError(t, err)
	_, err = w.dial(t, "no-such-user")
	require.Error(t, err)
	other, err := w.dial(t, "nobody")
	if os.Geteuid() != 0 {
		require.Error(t, err)
	} else {
		require.NoError(t, err)
		out, err := session(t, other).Output("id -un; echo $HOME $USER")
		require.NoError(t, err)
		nobody, err := user.Lookup("nobody")
		require.NoError(t, err)
		require.Equal(t, "nobody\n"+nobody.HomeDir+" nobody\n", string(out))
		_, err = sftp.NewClient(other)
		require.Error(t, err, "files would be those of root")
	}

	client := w.client(t)
	s := session(t, client)
	require.Error(t, s.RequestSubsystem("no-such"))
	require.NoError(t, s.RequestSubsystem("sftp"))
	require.Error(t, s.Start("true"), "one command a session")
	_, _, err = client.OpenChannel("x11", nil)
	require.Error(t, err)
	n := 1 // the session above
	for ; n < 1000; n++ {
		if _, err = client.NewSession(); err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "too many channels")
	require.Less(t, n, 200)
	resp, err := http.Get(w.http.URL + "/ssh")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUpgradeRequired, resp.StatusCode)
}

// What another claim left ends with the first request of the next one.
func TestAnotherClaim(t *testing.T) {
	t.Parallel()
	w := serve(t)
	s := session(t, w.client(t))
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.Start("echo begun; sleep 1000"))
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.http.URL+"/ssh/host-key", nil)
	require.NoError(t, err)
	req.Header.Set(sdk.ClaimHeader, "two")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Error(t, s.Wait())
}
