package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

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

// serve starts one, and returns when it listens.
func (b *bench) serve(ctx context.Context, f *fleet, name string, tick time.Duration) (*replica, error) {
	if b.binary == "" {
		path := filepath.Join(b.scratch, "prewarm")
		build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/prewarm-dev/prewarm/cmd/prewarm")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build prewarm: %w: %s", err, out)
		}
		b.binary = path
	}
	dir, err := os.MkdirTemp(b.scratch, name)
	if err != nil {
		return nil, err
	}
	r := &replica{name: name, ended: make(chan struct{}), log: filepath.Join(dir, "log")}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r.cmd = exec.CommandContext(ctx, b.binary, "server", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"),
		"--postgres-url", f.url, "--replica", name, "--tick", tick.String())
	r.cmd.Stderr = log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("replica %s did not start: %s", name, said)
	}
	r.client, err = sdk.New(r.address, f.token.Reveal())
	return r, err
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
func (r *replica) resident() (now, most int, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for l := range strings.Lines(string(raw)) {
		_, _ = fmt.Sscanf(l, "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(l, "VmHWM: %d kB", &most)
	}
	return now << 10, most << 10, nil
}

var errTooLong = errors.New("it did not happen in time")

// until polls.
func until(ctx context.Context, most time.Duration, what string, ok func() (bool, error)) error {
	for end := time.Now().Add(most); ; {
		done, err := ok()
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, errTooLong)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}
