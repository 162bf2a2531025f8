package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/xerrors"
)

// dir is the directory of one workspace.
type dir string

func (d dir) home() string          { return filepath.Join(string(d), "home") }
func (d dir) tmp() string           { return filepath.Join(string(d), "tmp") }
func (d dir) workspaceFile() string { return filepath.Join(string(d), "workspace.json") }
func (d dir) stateFile() string     { return filepath.Join(string(d), "state.json") }
func (d dir) lockFile() string      { return filepath.Join(string(d), "lock") }
func (d dir) logFile() string       { return filepath.Join(string(d), "log") }
func (d dir) tokenFile() string     { return filepath.Join(d.agent(), "agent-token") }
func (d dir) execSocket() string    { return filepath.Join(string(d), "exec") }
func (d dir) authorities() string   { return filepath.Join(d.agent(), "agent-ca.pem") }
func (d dir) supervisorLog() string { return filepath.Join(string(d), "supervisor.log") }

// agent is the agent's own directory, which the workspace's user may write: it renews its token.
func (d dir) agent() string {
	if _, err := os.Lstat(filepath.Join(string(d), "agent-token")); err == nil {
		return string(d) // made by a release before 0.2
	}
	return filepath.Join(string(d), "agent")
}

// phase is how far a supervisor is. A phase that is not final without a living supervisor means that it was killed.
type phase string

const (
	phaseNone     phase = ""         // no supervisor was ever there
	phaseStarting phase = "starting" // it is there, and has run nothing yet
	phaseSetup    phase = "setup"
	phaseRunning  phase = "running"
	phaseExited   phase = "exited"  // final: the command ended
	phaseFailed   phase = "failed"  // final: setup failed, or something could not be started
	phaseStopped  phase = "stopped" // final: by Stop, to be started again
)

// state is what a supervisor records. It is about processes, which do not outlive the machine, so it need not be on
// the disk, only whole.
type state struct {
	BootID     string  `json:"boot_id"`
	Supervisor process `json:"supervisor"`
	Main       process `json:"main"` // setup or command
	Phase      phase   `json:"phase"`
	ExitCode   int     `json:"exit_code"` // of what ended; 128 + n after signal n
	Detail     string  `json:"detail,omitempty"`
	SetupDone  bool    `json:"setup_done,omitempty"` // not to be run again by a Start
	Isolated   bool    `json:"isolated,omitempty"`   // all its processes end with the supervisor
}

func (s state) final() bool {
	return s.Phase == phaseExited || s.Phase == phaseFailed || s.Phase == phaseStopped
}

func (s state) write(d dir) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(d.stateFile(), content, false)
}

// view is a state together with whether its supervisor lives.
type view struct {
	state
	alive bool
}

// lost says that the supervisor was killed, or the machine restarted.
func (v view) lost() bool { return v.Phase != phaseNone && !v.final() && !v.alive }

const lostDetail = "the supervisor of the workspace was killed, or the machine restarted"

// observe reads the state and asks for the lock such that both fit together. A supervisor takes the lock before it
// first writes and writes its final state before it lets go; so 'not final, lock free, and still the same state' means
// that it is dead.
func observe(d dir) (view, error) {
	before, err := readState(d)
	if err != nil {
		return view{}, err
	}
	for {
		alive, err := isLocked(d.lockFile())
		if err != nil {
			return view{}, xerrors.Errorf("read lock: %w", err)
		}
		after, err := readState(d)
		if err != nil {
			return view{}, err
		}
		if !bytes.Equal(before, after) {
			before = after
			continue
		}
		v := view{alive: alive}
		if len(after) > 0 {
			if err := json.Unmarshal(after, &v.state); err != nil {
				return view{}, xerrors.Errorf("read %s: %w", d.stateFile(), err)
			}
		}
		return v, nil
	}
}

func readState(d dir) ([]byte, error) {
	content, err := os.ReadFile(d.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}
