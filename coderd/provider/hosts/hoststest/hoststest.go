// Package hoststest makes a fleet of real machines for tests, as far as SSH can tell: each is an sshd of its own, on a port
// of the loopback interface, with a home directory and host keys of its own. They run as the user of the test.
package hoststest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// Fleet is a number of machines and the key that opens them.
type Fleet struct {
	KeyFile  string
	Machines []*Machine

	dir        string
	authorized string
}

// Machine is one sshd. Home is where its users are.
type Machine struct {
	Name, Home string

	fleet   *Fleet
	dir     string
	port    int
	hostKey string // its public half, as it is pinned

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// eventually is how long a machine may take to do what it was told, on a machine that is busy with much else.
const eventually = time.Minute

// sshd is where the server is installed, or empty.
func sshd() string {
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// Start starts n machines, which end with the test. Without sshd the test is left out, but never in CI.
func Start(t testing.TB, n int) *Fleet {
	t.Helper()
	if sshd() == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("sshd is not there: scripts/sshd.sh installs it")
		}
		t.Skip("sshd is not there: scripts/sshd.sh installs it")
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // sshd wants it as root //nolint:gosec // its mode is what sshd asks for
	}
	f := &Fleet{dir: tempDir(t)}
	f.KeyFile = filepath.Join(f.dir, "key")
	f.authorized = filepath.Join(f.dir, "authorized_keys")
	public := NewKey(t, f.KeyFile)
	require.NoError(t, os.WriteFile(f.authorized, []byte(public+"\n"), 0o600))
	for i := range n {
		f.Machines = append(f.Machines, f.add(t, fmt.Sprintf("m%02d", i)))
	}
	var starting sync.WaitGroup
	for _, m := range f.Machines {
		starting.Go(func() { m.Start(t) })
	}
	starting.Wait()
	return f
}

// tempDir is in memory where that is possible: a machine syncs each change of its state, and those of a test share one disk
// with all other tests.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "prewarm-hosts-") // t.TempDir is on disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func (f *Fleet) add(t testing.TB, name string) *Machine {
	t.Helper()
	m := &Machine{Name: name, fleet: f, dir: filepath.Join(f.dir, name)}
	m.Home = filepath.Join(m.dir, "home")
	require.NoError(t, os.MkdirAll(m.Home, 0o700))
	m.hostKey = NewKey(t, filepath.Join(m.dir, "host_key"))
	m.port = freePort(t)
	t.Cleanup(func() {
		m.Kill(t)
		m.endProcesses(t)
	})
	return m
}

// NewKey writes a private key and returns the public one.
func NewKey(t testing.TB, file string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

var ports sync.Map // that this process gave out

// freePort is one that the system does not give out by itself, so that a machine that was stopped can have it again.
func freePort(t testing.TB) int {
	t.Helper()
	for range 200 {
		var b [2]byte
		_, _ = rand.Read(b[:])
		port := 61000 + (int(b[0])<<8+int(b[1]))%4500
		if _, taken := ports.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Start starts the machine's sshd and waits until it can be reached.
func (m *Machine) Start(t testing.TB) {
	t.Helper()
	me, err := user.Current()
	require.NoError(t, err)
	config := filepath.Join(m.dir, "sshd_config")
	require.NoError(t, os.WriteFile(config, []byte(strings.Join([]string{
		"ListenAddress 127.0.0.1:" + strconv.Itoa(m.port), "HostKey " + filepath.Join(m.dir, "host_key"), "PidFile none",
		"AuthorizedKeysFile " + m.fleet.authorized, "StrictModes no", "UsePAM no", "UseDNS no", "AllowUsers " + me.Username,
		"PermitRootLogin prohibit-password", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"SetEnv HOME=" + m.Home, "PrintMotd no", "PrintLastLog no", "MaxStartups 200", "LoginGraceTime 120", "LogLevel ERROR", "",
	}, "\n")), 0o600))
	log, err := os.OpenFile(filepath.Join(m.dir, "sshd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(sshd(), "-D", "-e", "-f", config)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	m.mu.Lock()
	m.cmd, m.exited = cmd, exited
	m.mu.Unlock()
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", m.Address())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, eventually, 10*time.Millisecond, "sshd of %s does not listen; see %s", m.Name, log.Name())
}

// Address is host and port.
func (m *Machine) Address() string { return "127.0.0.1:" + strconv.Itoa(m.port) }

// Kill ends sshd and all connections, as if the machine's network were gone. What runs on the machine goes on.
func (m *Machine) Kill(t testing.TB) {
	t.Helper()
	m.signal(t, syscall.SIGKILL)
	m.mu.Lock()
	exited := m.exited
	m.cmd, m.exited = nil, nil
	m.mu.Unlock()
	if exited != nil {
		<-exited // its port is free
	}
}

// Cut ends all connections; new ones are taken.
func (m *Machine) Cut(t testing.TB) {
	t.Helper()
	for _, pid := range m.tree()[1:] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Freeze stops sshd and all connections: the kernel takes new ones, and nobody answers.
func (m *Machine) Freeze(t testing.TB) { t.Helper(); m.signal(t, syscall.SIGSTOP) }

// Thaw is the end of a freeze.
func (m *Machine) Thaw(t testing.TB) { t.Helper(); m.signal(t, syscall.SIGCONT) }

// Reboot ends everything that runs on the machine, and starts it again.
func (m *Machine) Reboot(t testing.TB) {
	t.Helper()
	m.PowerOff(t)
	m.Start(t)
}

// PowerOff ends the machine and all that runs on it; Start begins it again, with nothing running.
func (m *Machine) PowerOff(t testing.TB) {
	t.Helper()
	m.Kill(t)
	m.endProcesses(t)
}

// NewHostKey installs the machine anew, as far as its host key shows.
func (m *Machine) NewHostKey(t testing.TB) {
	t.Helper()
	m.Kill(t)
	NewKey(t, filepath.Join(m.dir, "host_key"))
	m.Start(t)
}

func (m *Machine) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	for _, pid := range m.tree() {
		_ = syscall.Kill(pid, s)
	}
}

// tree are sshd and the processes of its connections, itself first.
func (m *Machine) tree() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return nil
	}
	all := []int{m.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, file := range children {
			list, _ := os.ReadFile(file)
			for _, field := range strings.Fields(string(list)) {
				pid, _ := strconv.Atoi(field)
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if strings.TrimSpace(string(name)) == "sshd" { // else it is what runs in a session
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// Processes are those that run on the machine and have the text in their environment, by what they run.
func (m *Machine) Processes(with string) map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, _ := os.ReadFile(file)
		text := "\x00" + string(env)
		if !strings.Contains(text, "\x00HOME="+m.Home+"\x00") || !strings.Contains(text, with) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found[pid] = strings.ReplaceAll(string(args), "\x00", " ")
	}
	return found
}

func (m *Machine) endProcesses(t testing.TB) {
	t.Helper()
	// All at once, as where the power goes: a shell that saw its command end would write down that it had failed.
	stopped := map[int]bool{}
	require.Eventually(t, func() bool {
		left := m.Processes("")
		before := len(stopped)
		for pid := range left {
			if !stopped[pid] {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				stopped[pid] = true
			}
		}
		if len(stopped) > before {
			return false // what was running until now may have begun more
		}
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	}, eventually, 10*time.Millisecond, "processes of %s do not end", m.Name)
}

// At is the setting "machines", as if they were at another address.
func (f *Fleet) At(address string) []map[string]any {
	machines := make([]map[string]any, len(f.Machines))
	for i, m := range f.Machines {
		machines[i] = map[string]any{
			"name": m.Name, "address": address, "port": m.port, "host_keys": []string{m.hostKey},
		}
	}
	return machines
}

// Config is the configuration of a provider for the fleet; settings are put beside it or in the place of what it has.
func (f *Fleet) Config(t testing.TB, settings map[string]any) json.RawMessage {
	t.Helper()
	me, err := user.Current()
	require.NoError(t, err)
	config := map[string]any{"user": me.Username, "key_file": f.KeyFile, "machines": f.At("127.0.0.1")}
	maps.Copy(config, settings)
	raw, err := json.Marshal(config)
	require.NoError(t, err)
	return raw
}
