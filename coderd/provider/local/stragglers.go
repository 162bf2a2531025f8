package local

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"
)

// killStragglers kills what is left of a workspace after its supervisor, until nothing is. That is what descends from a
// supervisor that was killed, and what Exec started.
func (p *Provider) killStragglers(ctx context.Context, id uuid.UUID, st state) error {
	pause := newPause(p.clock, 50*time.Millisecond)
	for {
		left, err := stragglers(id, st)
		if err != nil {
			return xerrors.Errorf("find processes: %w", err)
		}
		if len(left) == 0 {
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

// stragglers finds processes by PREWARM_WORKSPACE_ID in their environment, which they inherit, and by the session of
// their supervisor, for those that cleared or overwrote their environment.
func stragglers(id uuid.UUID, st state) ([]process, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	session := lostSession(st)
	mark := []byte("\x00" + envWorkspaceID + "=" + id.String() + "\x00")
	self := os.Getpid()
	var left []process
	for _, pid := range all {
		if pid == self {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		ours := bytes.Contains(append([]byte{0}, environ...), mark)
		if !ours && session != 0 {
			sid, err := unix.Getsid(pid)
			ours = err == nil && sid == session
		}
		if !ours {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.zombie {
			left = append(left, s.process)
		}
	}
	return left, nil
}

// lostSession is the session of the recorded supervisor, or 0 if that number may mean another one by now. The kernel
// does not give a number away while it names a session, so the number is good unless a process has it that is not the
// supervisor.
func lostSession(st state) int {
	if st.Supervisor.PID <= 1 || st.BootID != bootID() {
		return 0
	}
	if s, err := readStat(st.Supervisor.PID); err == nil && s.Start != st.Supervisor.Start {
		return 0
	}
	return st.Supervisor.PID
}
