package local

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"
)

// killStragglers kills what is left of a workspace after its supervisor, until nothing is. Where the workspace is
// isolated, the kernel does that; else it is what descends from a supervisor that was killed.
func (p *Provider) killStragglers(ctx context.Context, id uuid.UUID, st state) error {
	pause := newPause(p.clock, 50*time.Millisecond)
	for st.Isolated && st.BootID == bootID() {
		if st.Supervisor.ended() {
			return nil
		}
		st.Supervisor.send(syscall.SIGKILL)
		if err := pause.wait(ctx); err != nil {
			return xerrors.Errorf("end supervisor: %w", err)
		}
	}
	for round := 0; ; round++ {
		left, unsure, err := stragglers(id, st)
		if err != nil {
			return xerrors.Errorf("find processes: %w", err)
		}
		// What is in between is so for milliseconds. A process that hides its arguments looks like that for ever.
		if len(left) == 0 && (!unsure || round >= 20) {
			return nil
		}
		for _, proc := range left {
			proc.send(syscall.SIGKILL)
		}
		if err := pause.wait(ctx); err != nil {
			return xerrors.Errorf("end %d processes: %w", len(left), err)
		}
	}
}

// stragglers finds processes by the mark in their environment, which they inherit, and by the session of
// their supervisor, for those that cleared or overwrote their environment. With unsure, there were others that could
// not be told yet.
func stragglers(id uuid.UUID, st state) (left []process, unsure bool, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, false, err
	}
	session := lostSession(st)
	mark := []byte("\x00" + envMark + "=" + id.String() + "\x00")
	self := os.Getpid()
	for _, p := range all {
		pid := p.PID
		if pid == self {
			continue
		}
		environ, between := environOf(pid)
		ours := bytes.Contains(append([]byte{0}, environ...), mark)
		if !ours && session != 0 {
			sid, err := unix.Getsid(pid)
			ours = err == nil && sid == session
		}
		if !ours {
			unsure = unsure || between
			continue
		}
		if s, err := readStat(pid); err == nil && !zombie(s) {
			left = append(left, named(s))
		}
	}
	return left, unsure, nil
}

const kernelThread = 0x00200000 // PF_KTHREAD

// environOf reads the environment that a process started with. A process in the middle of execve has neither that nor
// arguments for a moment, and neither has one on its way out, which may still hold a port: they are in between.
func environOf(pid int) (environ []byte, between bool) {
	proc := "/proc/" + strconv.Itoa(pid)
	if environ, _ = os.ReadFile(proc + "/environ"); len(environ) > 0 {
		return environ, false
	}
	if args, _ := os.ReadFile(proc + "/cmdline"); len(args) > 0 {
		environ, _ = os.ReadFile(proc + "/environ") // it may have come up between the two
		return environ, false
	}
	s, err := readStat(pid)
	return nil, err == nil && !zombie(s) && s.Flags&kernelThread == 0
}

// lostSession is the session of the recorded supervisor, or 0 if that number may mean another one by now. The kernel
// does not give a number away while it names a session, so the number is good unless a process has it that is not the
// supervisor.
func lostSession(st state) int {
	if st.Supervisor.PID <= 1 || st.BootID != bootID() {
		return 0
	}
	if s, err := readStat(st.Supervisor.PID); err == nil && s.Starttime != st.Supervisor.Start {
		return 0
	}
	return st.Supervisor.PID
}
