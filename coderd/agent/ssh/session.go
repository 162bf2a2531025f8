package ssh

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/pkg/sftp"
	gossh "golang.org/x/crypto/ssh"

	"github.com/prewarm-dev/prewarm/coderd/agent/processes"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	// mostVariables is how many variables of the environment a session may be sent.
	mostVariables = 128
	// notStarted is the status that shells give to a command that they cannot start.
	notStarted = 127
)

// What clients send of a session (RFC 4254, section 6).
type (
	variable struct{ Name, Value string }
	terminal struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	size       struct{ Cols, Rows, Width, Height uint32 }
	text       struct{ Text string }
	exitStatus struct{ Status uint32 }
)

// session is one channel on which one command runs.
type session struct {
	*connection
	channel  gossh.Channel
	start    sdk.ProcessStart
	begun    bool
	command  *processes.Attended // nil: none runs, or it is sftp
	endAgent func()              // closes the way to the client's agent of keys; nil: there is none
}

// serve answers requests until the client has closed the channel.
func (s *session) serve(ctx context.Context, requests <-chan *gossh.Request) {
	s.start.User, s.start.Dir, s.start.Env = s.account.user, s.account.dir, map[string]string{}
	for request := range requests {
		ok := s.request(ctx, request)
		if request.WantReply {
			_ = request.Reply(ok, nil)
		}
		if ok && !s.begun {
			s.begin(request)
		}
	}
	if s.command != nil {
		s.command.HangUp()
	}
	if s.endAgent != nil {
		s.endAgent()
	}
}

// request says whether it is granted.
func (s *session) request(ctx context.Context, r *gossh.Request) bool {
	switch r.Type {
	case "env":
		var v variable
		if s.begun || gossh.Unmarshal(r.Payload, &v) != nil || len(s.start.Env) >= mostVariables {
			return false
		}
		s.start.Env[v.Name] = v.Value
		return true
	case "pty-req":
		var t terminal
		if s.begun || gossh.Unmarshal(r.Payload, &t) != nil {
			return false
		}
		s.start.TTY, s.start.Rows, s.start.Cols = true, clamp(t.Rows), clamp(t.Cols)
		s.start.Env["TERM"] = t.Term
		return true
	case "window-change":
		var to size
		return s.command != nil && gossh.Unmarshal(r.Payload, &to) == nil &&
			s.command.Resize(sdk.WindowSize{Rows: clamp(to.Rows), Cols: clamp(to.Cols)}) == nil
	case "signal":
		var name text
		return s.command != nil && gossh.Unmarshal(r.Payload, &name) == nil && s.command.Signal(name.Text) == nil
	case "auth-agent-req@openssh.com":
		if s.begun || s.endAgent != nil || s.account.user != "" {
			return false
		}
		path, closeAgent, err := s.connection.agent(ctx)
		if err != nil {
			return false
		}
		s.endAgent, s.start.Env["SSH_AUTH_SOCK"] = closeAgent, path
		return true
	case "shell", "exec":
		return !s.begun
	case "subsystem":
		var name text
		return !s.begun && gossh.Unmarshal(r.Payload, &name) == nil && name.Text == "sftp"
	}
	return false
}

// begin runs what was asked for, if that is something to run.
func (s *session) begin(r *gossh.Request) {
	switch r.Type {
	case "shell": // no login shell, whose profile would replace the environment of the workspace
		s.start.Command = []string{s.account.shell}
	case "exec":
		var line text
		if gossh.Unmarshal(r.Payload, &line) != nil {
			return
		}
		s.start.Command = []string{s.account.shell, "-c", line.Text}
	case "subsystem":
		s.begun = true
		go func() { s.end(s.sftp()) }()
		return
	default:
		return
	}
	s.begun = true
	if _, ok := s.start.Env["SHELL"]; !ok {
		s.start.Env["SHELL"] = s.account.shell
	}
	command, err := s.table.Attend(s.start, s.channel, s.channel, s.channel.Stderr())
	if err != nil {
		s.complain(err)
		s.end(notStarted)
		return
	}
	s.command = command
	go func() { s.end(command.Wait()) }()
}

func (s *session) complain(err error) {
	_, _ = io.WriteString(s.channel.Stderr(), "prewarm: "+err.Error()+"\r\n")
}

// end tells the client the status, and closes the channel.
func (s *session) end(status int) {
	_, _ = s.channel.SendRequest("exit-status", false, gossh.Marshal(exitStatus{uint32(status)}))
	_ = s.channel.Close()
}

// sftp serves files, as the agent's own user.
func (s *session) sftp() (status int) {
	if s.account.user != "" {
		s.complain(errors.New("files are served as the agent's own user: leave " + strconv.Quote(s.account.user) + " out, or use scp -O"))
		return 1
	}
	server, err := sftp.NewServer(s.channel, sftp.WithServerWorkingDirectory(s.table.Dir))
	if err != nil {
		s.complain(err)
		return 1
	}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// clamp makes a size one of a terminal, which has 16 bits.
func clamp(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }
