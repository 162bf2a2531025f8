package processes

import (
	"io"
	"syscall"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Attended is a command that runs for one client, such as a session of SSH, and is no row of the table.
type Attended struct {
	table *Table
	run   *running
}

// Attend starts a command for a client, and copies between its streams and the client's. Wait must follow. Only what the
// command reads is taken of stdin, whose reads may go on after its end.
func (t *Table) Attend(start sdk.ProcessStart, stdin io.Reader, stdout, stderr io.Writer) (*Attended, error) {
	start.Stdin = true
	r, err := t.execute(start, stdout, stderr)
	if err != nil {
		return nil, err
	}
	go r.feed(stdin)
	return &Attended{t, r}, nil
}

// Wait returns the exit code, 128 + n after signal n, when the client has all output.
func (a *Attended) Wait() int {
	defer a.table.executed(a.run)
	return a.run.wait()
}

// Signal sends a signal, such as TERM, to the command and its children.
func (a *Attended) Signal(name string) error { return a.run.signalNamed(name) }

// Resize sets the size of the terminal.
func (a *Attended) Resize(size sdk.WindowSize) error { return a.run.resize(size) }

// HangUp says that the client has gone. As with any sshd, a terminal is lost, which ends what runs on it; what has none loses
// its streams and may go on, until the claim ends.
func (a *Attended) HangUp() {
	if a.run.terminal != nil {
		a.run.signal(syscall.SIGHUP)
	}
	a.run.close()
}
