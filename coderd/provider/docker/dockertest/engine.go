package dockertest

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/tied"
)

const (
	// startTimeout is how long a start or a stop may take before it counts as a hang.
	startTimeout = 2 * time.Minute
	folderPrefix = "prewarm-docker-"
)

// Engine is a dockerd and all of its containers.
type Engine struct {
	Host   string         // for clients, such as unix:///tmp/…/docker.sock
	Client *client.Client // to see and do what the provider is not told of
	Dir    string         // of everything that it writes

	third, second byte // of the subnets: 10.second.third.0/24
	mu            sync.Mutex
	cmd           *exec.Cmd
	done          chan struct{}
	networks      int
	bridges       []string
}

// inside is the first process of the namespaces: it makes them the engine's own, hands on SIGTERM, and collects what
// loses its parent.
const inside = `
mount --make-rprivate / && mount -t proc proc /proc && mkdir -p /run/containerd && mount -t tmpfs none /run/containerd &&
	mkdir -p "$ETC" /etc/docker && mount --bind "$ETC" /etc/docker || exit 70
"$@" & pid=$!
trap 'kill -TERM $pid' TERM
while :; do
	wait $pid; status=$?
	kill -0 $pid 2>/dev/null || exit $status
done`

// New starts an engine in a new folder. Whoever calls it calls Remove.
func New() (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("start dockerd: only root can")
	}
	sweep()
	dir, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("start dockerd: %w", err)
	}
	e := &Engine{
		Dir: dir, Host: "unix://" + filepath.Join(dir, "docker.sock"),
		second: byte(64 + rand.N(128)), third: byte(rand.N(256)),
	}
	e.Client, err = client.New(client.WithHost(e.Host))
	if err == nil {
		err = e.Start()
	}
	if err != nil {
		e.Remove()
		return nil, err
	}
	return e, nil
}

// Start starts the daemon, again after a Stop or Kill, and returns when it answers.
func (e *Engine) Start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	daemon, err := exec.LookPath("dockerd")
	if err != nil {
		if daemon = "/usr/sbin/dockerd"; exec.Command(daemon, "--version").Run() != nil {
			return fmt.Errorf("start dockerd: it is not installed: run scripts/docker.sh")
		}
	}
	config := filepath.Join(e.Dir, "daemon.json")
	if err := os.WriteFile(config, []byte("{}\n"), 0o600); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	log, err := os.OpenFile(e.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	defer log.Close()
	// What was killed left the numbers of its processes, which may be in use in the new namespace. A machine that starts
	// again has an empty /run too.
	_ = os.Remove(filepath.Join(e.Dir, "pid"))
	_ = os.RemoveAll(filepath.Join(e.Dir, "exec"))
	cmd := exec.Command("/bin/sh", "-c", inside, "sh", daemon,
		"--host", e.Host, "--config-file", config, "--data-root", filepath.Join(e.Dir, "data"),
		"--exec-root", filepath.Join(e.Dir, "exec"), "--pidfile", filepath.Join(e.Dir, "pid"),
		"--cgroup-parent", e.cgroup(), "--bridge", "none", "--iptables=false", "--ip-masq=false", "--ip-forward=false",
		"--log-level", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "DOCKER_") }),
		"PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "HOME="+e.Dir, "DOCKER_RAMDISK=1",
		"ETC="+filepath.Join(e.Dir, "etc")) // where some engines keep what they are recognised by
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Setpgid: true,
	}
	if err := tied.Start(cmd); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	e.cmd, e.done = cmd, make(chan struct{})
	go func(done chan struct{}) { _ = cmd.Wait(); close(done) }(e.done)
	if err := e.answers(); err != nil {
		e.end(syscall.SIGKILL)
		return fmt.Errorf("start dockerd: %w; the end of its log:\n%s", err, e.Log())
	}
	return nil
}

// answers waits until the daemon does.
func (e *Engine) answers() error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := e.Client.Ping(ctx, client.PingOptions{})
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-e.done:
			return fmt.Errorf("it ended: %s", e.cmd.ProcessState)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not answer after %s: %w", startTimeout, err)
		}
	}
}

// Stop ends the daemon in order, and all containers with it. They are there, stopped, after the next Start.
func (e *Engine) Stop() { e.halt(syscall.SIGTERM) }

// Kill ends the daemon and all containers as a loss of power would.
func (e *Engine) Kill() { e.halt(syscall.SIGKILL) }

func (e *Engine) halt(signal syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(signal)
}

func (e *Engine) end(signal syscall.Signal) {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Signal(signal)
	if signal == syscall.SIGKILL {
		thaw(e.cgroup())
	}
	select {
	case <-e.done:
	case <-time.After(startTimeout):
		_ = e.cmd.Process.Kill()
		thaw(e.cgroup())
		<-e.done
	}
	e.cmd = nil
}

// Remove ends the engine and removes everything of it.
func (e *Engine) Remove() {
	e.Kill() // in order or not: nothing of it is wanted
	_ = e.Client.Close()
	for _, bridge := range e.bridges {
		removeBridge(bridge)
	}
	removeCgroups(e.cgroup())
	_ = os.RemoveAll(e.Dir)
}

// Log is the end of what the daemon wrote.
func (e *Engine) Log() string {
	content, err := os.ReadFile(e.logFile())
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-8<<10):])
}

func (e *Engine) logFile() string { return filepath.Join(e.Dir, "log") }

// cgroup is the name of the parent of all containers, of which each folder's engine has its own.
func (e *Engine) cgroup() string { return filepath.Base(e.Dir) }

// shared is what all tests of a binary use, from the first that asks to the end of Main.
var shared struct {
	once   sync.Once
	inMain bool
	engine *Engine
	err    error
}

// Main runs the tests of a package, and ends the engine that they shared.
func Main(m *testing.M) {
	shared.inMain = true
	code := m.Run()
	if shared.engine != nil {
		shared.engine.Remove()
	}
	os.Exit(code)
}

// Shared is the one engine of the test binary, which must not be stopped.
func Shared(t testing.TB) *Engine {
	t.Helper()
	if !shared.inMain {
		t.Fatal("the package's TestMain must call dockertest.Main")
	}
	shared.once.Do(func() { shared.engine, shared.err = New() })
	orLeaveOut(t, shared.err)
	return shared.engine
}

// Start starts an engine for one test.
func Start(t testing.TB) *Engine {
	t.Helper()
	e, err := New()
	orLeaveOut(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of dockerd:\n%s", e.Log())
		}
		e.Remove()
	})
	return e
}

// orLeaveOut leaves a test out on a machine that has no engine to offer. CI has one.
func orLeaveOut(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") != "" && os.Getenv("CI") != "false":
		t.Fatalf("CI must run this: %v", err)
	default:
		t.Skipf("no container engine: %v", err)
	}
}

// sweep removes what engines left whose test process was killed.
func sweep() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, dir := range folders {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Hour || inUse(dir) {
			continue
		}
		names, _ := fs.Glob(os.DirFS("/sys/class/net"), "pw*")
		for _, name := range names {
			if strings.HasPrefix(name, bridgePrefix(filepath.Base(dir))) {
				removeBridge(name)
			}
		}
		thaw(filepath.Base(dir))
		removeCgroups(filepath.Base(dir))
		_ = os.RemoveAll(dir)
	}
}

// inUse says whether a process has the folder in its arguments.
func inUse(dir string) bool {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(commands, func(path string) bool {
		content, _ := os.ReadFile(path)
		return strings.Contains(string(content), dir+"/")
	})
}
