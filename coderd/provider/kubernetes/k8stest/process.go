package k8stest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/tied"
)

// process is one part of a cluster.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
}

// run starts a part, which the kernel kills when this process is gone.
func (c *Cluster) run(name string, cloned uintptr, command string, args ...string) error {
	log, err := os.OpenFile(c.logFile(name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(command, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + c.Dir, "TMPDIR=" + c.Dir, "DIR=" + c.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: cloned, Setpgid: true}
	if err := tied.Start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.done) }()
	c.processes = append(c.processes, p)
	return nil
}

// ended is an error if a part has ended, with the end of its log.
func (c *Cluster) ended() error {
	for _, p := range c.processes {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %s; the end of its log:\n%s", p.name, p.cmd.ProcessState, c.Log(p.name))
		default:
		}
	}
	return nil
}

// stop ends a part in order, and after a while by force.
func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (c *Cluster) logFile(name string) string { return filepath.Join(c.Dir, name+".log") }

// Log is the end of what a part wrote.
func (c *Cluster) Log(name string) string {
	content, err := os.ReadFile(c.logFile(name))
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-6<<10):])
}

// Freeze stops the API server, so that it answers nobody, and Thaw has it go on.
func (c *Cluster) Freeze(t testing.TB) { c.signal(t, "kube-apiserver", syscall.SIGSTOP) }

// Thaw has the API server go on.
func (c *Cluster) Thaw(t testing.TB) { c.signal(t, "kube-apiserver", syscall.SIGCONT) }

// Yield has all parts take only what others leave of the processors, from now on. On machines of their own they would take nothing.
func (c *Cluster) Yield(t testing.TB) {
	t.Helper()
	const lowest = 19
	for _, p := range c.processes {
		if err := syscall.Setpriority(syscall.PRIO_PGRP, p.cmd.Process.Pid, lowest); err != nil {
			t.Fatalf("lower the priority of %s: %v", p.name, err)
		}
	}
}

func (c *Cluster) signal(t testing.TB, name string, signal syscall.Signal) {
	t.Helper()
	for _, p := range c.processes {
		if p.name == name {
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
	}
}
