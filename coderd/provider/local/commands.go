package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"
)

// Commands that run beside a workspace's own are started by its supervisor, on request over a socket in the workspace's
// directory: so they are in the workspace's namespaces, have its user, and end with it.
//
// A request is the length of its text in 4 bytes, with the three files of the command, and the text, a commandRequest.
// The answers are a commandAnswer when the command began, and another when it ended. Who closes the connection before
// that ends the command.

// maxCommandRequest is in bytes; the kernel takes no more as arguments and environment.
const maxCommandRequest = 4 << 20

type commandRequest struct {
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Terminal    bool              `json:"terminal,omitempty"`
}

type commandAnswer struct {
	Error  string             `json:"error,omitempty"` // it did not begin
	Ended  bool               `json:"ended,omitempty"`
	Status syscall.WaitStatus `json:"status,omitempty"`
}

// execution is such a command, on the supervisor's side.
type execution struct {
	commandRequest
	files   []*os.File
	started chan error              // has room for one
	ended   chan syscall.WaitStatus // has room for one
	pid     int
}

// inDirectory calls do with a name of the socket of a directory that is short enough for one.
func inDirectory(d dir, do func(short string) error) error {
	at, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer at.Close()
	return do("/proc/self/fd/" + strconv.Itoa(int(at.Fd())) + "/" + filepath.Base(d.execSocket()))
}

// listenForExec makes the socket, which only this user may connect to.
func listenForExec(d dir) (l *net.UnixListener, err error) {
	if err := os.Remove(d.execSocket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	defer syscall.Umask(syscall.Umask(0o177))
	err = inDirectory(d, func(short string) error {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short})
		return err
	})
	if err == nil {
		l.SetUnlinkOnClose(false) // its name is good only while the directory is open
	}
	return l, err
}

func (s *supervisor) acceptExec() {
	for {
		conn, err := s.listen.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// No descriptors are left: commands that end will give theirs back.
			<-s.clock.NewTimer(10*time.Millisecond, "supervisor", "accept").C
			continue
		}
		go s.serveExec(conn)
	}
}

// serveExec runs one command for whoever is at the other end.
func (s *supervisor) serveExec(conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	answer := json.NewEncoder(conn)
	e, err := receive(conn, s.clock.Now().Add(10*time.Second))
	if err == nil {
		select {
		case s.begins <- e:
			err = <-e.started
		case <-s.gone:
			err = errNotRunning
		}
		closeAll(e.files...)
	}
	if err != nil {
		_ = answer.Encode(commandAnswer{Error: err.Error()})
		return
	}
	defer s.served.Done()
	_ = answer.Encode(commandAnswer{})
	left := make(chan struct{})
	go func() {
		_, _ = conn.Read(make([]byte, 1)) // nothing more is ever sent
		close(left)
	}()
	select {
	case status := <-e.ended:
		_ = answer.Encode(commandAnswer{Ended: true, Status: status})
		return
	case <-left:
	}
	select {
	case s.kills <- e:
	case <-e.ended:
	}
}

var errNotRunning = errors.New("it is not running")

// execute starts a command, on the main thread.
func (s *supervisor) execute(e *execution) (err error) {
	if s.stopping.Load() || s.state.Main == (process{}) {
		return errNotRunning
	}
	if e.pid, err = s.spawn(e.Command, e.Environment, e.files, e.Terminal); err == nil {
		s.running[e.pid] = e
		s.served.Add(1)
	}
	return err
}

// receive reads a request, which comes at once or not at all.
func receive(conn *net.UnixConn, deadline time.Time) (*execution, error) {
	if err := conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	var length [4]byte
	rights := make([]byte, unix.CmsgSpace(3*4))
	n, nRights, _, _, err := conn.ReadMsgUnix(length[:], rights)
	if err != nil {
		return nil, xerrors.Errorf("read request: %w", err)
	}
	e := &execution{started: make(chan error, 1), ended: make(chan syscall.WaitStatus, 1)}
	messages, err := unix.ParseSocketControlMessage(rights[:nRights])
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			e.files = append(e.files, os.NewFile(uintptr(fd), "exec"))
		}
	}
	size := binary.BigEndian.Uint32(length[:])
	if err != nil || n != len(length) || len(e.files) != 3 || size > maxCommandRequest {
		closeAll(e.files...)
		return nil, xerrors.New("read request: it is not one")
	}
	text := make([]byte, size)
	if _, err = io.ReadFull(conn, text); err == nil {
		err = json.Unmarshal(text, &e.commandRequest)
	}
	if err == nil && len(e.Command) == 0 {
		err = xerrors.New("no command is given")
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		closeAll(e.files...)
		return nil, xerrors.Errorf("read request: %w", err)
	}
	return e, nil
}
