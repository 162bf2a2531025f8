package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// replica is a `prewarm server` process on a fleet's database.
type replica struct {
	name    string
	cmd     *exec.Cmd
	address string
	client  *sdk.Client
	ended   chan struct{}
	log     string
}

var greeting = regexp.MustCompile(`Prewarm is at (http://\S+)`)

// serve starts one, with more arguments, and returns when it listens.
func (b *bench) serve(ctx context.Context, f *fleet, name string, tick time.Duration, more ...string) *replica {
	dir := get(os.MkdirTemp(b.scratch, name))
	r := &replica{name: name, ended: make(chan struct{}), log: filepath.Join(dir, "log")}
	log := get(os.Create(r.log))
	defer log.Close()
	args := []string{
		"server", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), "--postgres-url", f.url,
		"--replica", name, "--tick", tick.String(),
	}
	r.cmd = exec.CommandContext(ctx, b.program(ctx, "cmd/prewarm"), append(args, more...)...)
	r.cmd.Stderr = log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := get(r.cmd.StdoutPipe())
	must(r.cmd.Start())
	lines := bufio.NewScanner(out)
	for r.address == "" && lines.Scan() {
		if m := greeting.FindStringSubmatch(lines.Text()); m != nil {
			r.address = m[1]
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	if r.address == "" {
		said, _ := os.ReadFile(r.log)
		fail("replica %s did not start: %s", name, said)
	}
	r.client = get(sdk.New(r.address, f.token.Reveal()))
	return r
}

// running is a fleet with a server on it, whose pools are full.
func (b *bench) running(ctx context.Context, pools, each int, name string) (f *fleet, r *replica, end func()) {
	f = b.fleet(ctx, pools, each)
	if err := attempt(func() { r = b.serve(ctx, f, name, 15*time.Second) }); err != nil {
		f.drop()
		must(err)
	}
	f.full(ctx, pools*each)
	return f, r, func() { r.stop(); f.drop() }
}

// program builds a command of this module, once.
func (b *bench) program(ctx context.Context, of string) (path string) {
	path = filepath.Join(b.scratch, filepath.Base(of))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/prewarm-dev/prewarm/"+of)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build`: containers get it as their agent
	if out, err := build.CombinedOutput(); err != nil {
		fail("build %s: %w: %s", filepath.Base(of), err, out)
	}
	return path
}

func (r *replica) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) }

// stop ends it in order, and hard if that takes too long.
func (r *replica) stop() {
	r.signal(syscall.SIGCONT)
	r.signal(syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		r.kill()
	}
}

func (r *replica) kill() {
	r.signal(syscall.SIGKILL)
	<-r.ended
}

func (r *replica) host() string { return strings.TrimPrefix(r.address, "http://") }

// resident is the memory of the process, now and at most, in bytes.
func (r *replica) resident() (now, most int) {
	is := get(get(procfs.NewProc(r.cmd.Process.Pid)).NewStatus())
	return int(is.VmRSS), int(is.VmHWM)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		must(ctx.Err())
	case <-time.After(d):
	}
}

// until polls.
func until(ctx context.Context, most time.Duration, what string, ok func() bool) {
	for end := time.Now().Add(most); ; {
		if ok() {
			return
		}
		if time.Now().After(end) {
			fail("%s: it did not happen in time", what)
		}
		pause(ctx, 2*time.Millisecond)
	}
}
