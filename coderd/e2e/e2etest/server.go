package e2etest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tied"
)

// Options of one server process. The zero value is a server with a PostgreSQL of its own and a tick of 15 s.
type Options struct {
	PostgresURL string
	DataDir     string // empty: a new one, removed with the test
	Replica     string // empty: unique in this process
	Listen      string // empty: a free port
	Tick        time.Duration
	Args        []string // more flags
	Env         []string // over the test's own environment
	Binary      string   // another than the one that is built, which understands the same arguments

	// User runs it as somebody else, whom DataDir must belong to; nil: as the test. Only root can.
	User *syscall.Credential
}

// Server is a running server process.
type Server struct {
	URL     string
	Replica string
	DataDir string
	Client  *sdk.Client // speaks as the owner

	t    testing.TB
	cmd  *exec.Cmd
	log  string        // file of its stderr
	done chan struct{} // closed when it has ended
}

// startTimeout is how long a start may take before it counts as a hang.
const startTimeout = time.Minute

var serial atomic.Int64

// Start starts a server and returns when it says that it is ready. It is killed with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := TryStart(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// StartAll starts n servers at once.
func StartAll(t testing.TB, n int, opts Options) []*Server {
	t.Helper()
	servers, errs := make([]*Server, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { servers[i], errs[i] = TryStart(t, opts) })
	}
	starting.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

// TryStart is Start for a server that may fail to: the error holds what it said.
func TryStart(t testing.TB, opts Options) (*Server, error) {
	t.Helper()
	n := serial.Add(1)
	if opts.DataDir == "" {
		opts.DataDir = t.TempDir()
	}
	if opts.Replica == "" {
		opts.Replica = fmt.Sprintf("replica-%d", n)
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	args := []string{"server", "--listen", opts.Listen, "--data-dir", opts.DataDir, "--replica", opts.Replica}
	if opts.PostgresURL != "" {
		args = append(args, "--postgres-url", opts.PostgresURL)
	}
	if opts.Tick != 0 {
		args = append(args, "--tick", opts.Tick.String())
	}
	if opts.Binary == "" {
		opts.Binary = Binary(t)
	}
	s := &Server{
		Replica: opts.Replica, DataDir: opts.DataDir, t: t, done: make(chan struct{}),
		cmd: exec.Command(opts.Binary, append(args, opts.Args...)...),
		log: filepath.Join(t.TempDir(), fmt.Sprintf("%s-%d.log", opts.Replica, n)),
	}
	s.cmd.Env = append(os.Environ(), opts.Env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: opts.User}
	return s, s.launch()
}

func (s *Server) launch() error {
	stderr, err := os.Create(s.log)
	if err != nil {
		return fmt.Errorf("create log of server: %w", err)
	}
	defer stderr.Close()
	stdout, hello, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	s.cmd.Stdout, s.cmd.Stderr = hello, stderr
	err = tied.Start(s.cmd)
	_ = hello.Close()
	if err != nil {
		_ = stdout.Close()
		return fmt.Errorf("start server: %w", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.done) }()
	s.t.Cleanup(func() {
		s.Kill()
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", s.Replica, s.Log())
		}
	})

	type greeting struct{ url, tokenFile string }
	greeted := make(chan greeting, 1)
	go func() {
		defer stdout.Close()
		var g greeting
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "Prewarm is at "); ok {
				g.url = url
			}
			if path, ok := strings.CutPrefix(lines.Text(), "The owner's token is in "); ok {
				g.tokenFile = strings.TrimSuffix(path, " (new)")
				greeted <- g
			}
		}
	}()
	select {
	case g := <-greeted:
		s.URL = g.url
		token, err := os.ReadFile(g.tokenFile)
		if err != nil {
			return fmt.Errorf("read owner token: %w", err)
		}
		s.Client, err = sdk.New(s.URL, strings.TrimSpace(string(token)))
		return err
	case <-s.done:
		return fmt.Errorf("server ended with status %d:\n%s", s.cmd.ProcessState.ExitCode(), s.Log())
	case <-time.After(startTimeout):
		s.Kill()
		return fmt.Errorf("server was not ready after %s:\n%s", startTimeout, s.Log())
	}
}

// PID is the process's id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Signal sends a signal; one to a process that has ended is lost.
func (s *Server) Signal(signal syscall.Signal) { _ = s.cmd.Process.Signal(signal) }

// Kill ends the process as a crash would, and returns when it is gone.
func (s *Server) Kill() {
	s.Signal(syscall.SIGKILL)
	<-s.done
}

// Stop ends the process in order (SIGTERM) and returns its exit status.
func (s *Server) Stop() int {
	s.t.Helper()
	s.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(startTimeout):
		s.t.Errorf("%s did not stop within %s", s.Replica, startTimeout)
		s.Kill()
	}
	return s.cmd.ProcessState.ExitCode()
}

// Log is the end of what the process wrote to stderr so far.
func (s *Server) Log() string {
	const most = 16 << 10
	f, err := os.Open(s.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	content, _ := io.ReadAll(f)
	return string(content)
}

// LogAround is what the process wrote to stderr where it mentions something, with the lines that belong to it. Empty: it
// never did.
func (s *Server) LogAround(mention string) string {
	const most = 20
	content, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		if strings.Contains(line, mention) {
			return strings.Join(lines[i:min(i+most, len(lines))], "\n")
		}
	}
	return ""
}

// LogBetween is what the process wrote to stderr in a span of time, but for more than 200 lines of it.
func (s *Server) LogBetween(from, to time.Time) string {
	const most, stamp = 200, "2006-01-02 15:04:05.000"
	content, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	var within []string
	in := false
	for line := range strings.Lines(string(content)) {
		if len(line) > len(stamp) { // what belongs to a line comes after it, without a time
			if at, err := time.ParseInLocation(stamp, line[:len(stamp)], time.Local); err == nil {
				in = !at.Before(from) && !at.After(to)
			}
		}
		if in && len(within) < most {
			within = append(within, line)
		}
	}
	return strings.Join(within, "")
}
