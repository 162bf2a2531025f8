package hosts

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Exec runs a command in the workspace's directory, on a connection of its own. The command is sent beforehand, so that
// neither it nor its environment is on a command line.
func (p *Provider) Exec(ctx context.Context, ref provider.Ref, req provider.ExecRequest) (int, error) {
	command, err := commandOf(req)
	if err != nil {
		return 0, provider.Permanent(err)
	}
	m, _, err := p.find(ctx, ref)
	if err != nil {
		return 0, err
	}
	r := request{op: "exec", ref: ref, exec: strings.ToLower(rand.Text()), command: command}
	a, err := p.ask(ctx, m, r)
	if err == nil {
		err = m.refusal(a)
	}
	if err != nil {
		return 0, err
	}
	s, done, err := p.ownSession(ctx, m)
	if err != nil {
		return 0, err
	}
	defer done()
	s.Stdin, s.Stdout, s.Stderr = req.Stdin, req.Stdout, req.Stderr
	if req.TTY {
		if err := s.RequestPty("xterm-256color", 24, 80, ssh.TerminalModes{}); err != nil {
			return 0, m.says(xerrors.Errorf("ask for a terminal: %w", err))
		}
		resized := make(chan struct{})
		defer close(resized)
		go req.Resizes(resized, func(size provider.WindowSize) { _ = s.WindowChange(int(size.Rows), int(size.Cols)) })
	}
	status, err := exitStatus(runSession(ctx, s, "exec sh "+quote(a.dir+"/run/exec-"+r.exec)))
	r.op, r.command, r.again = "kill", "", ctx.Err() != nil || err != nil
	_, _ = p.ask(context.WithoutCancel(ctx), m, r) // the reset sees to it, where the machine can't be reached
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, m.says(err)
	}
	return status, nil
}

// commandOf is the function that writes what the command's session runs.
func commandOf(req provider.ExecRequest) (string, error) {
	if len(req.Command) == 0 || req.Command[0] == "" {
		return "", xerrors.New("there is no command")
	}
	words := make([]string, len(req.Command))
	for i, word := range req.Command {
		if strings.ContainsRune(word, 0) {
			return "", xerrors.New("an argument contains a NUL character")
		}
		words[i] = quote(word)
	}
	if err := provider.CheckEnvironment(req.Env); err != nil {
		return "", err
	}
	end := "END_" + rand.Text()
	return "deliver_command() {\ncat <<'" + end + "'\n" + exports(req.Env) + "exec " + strings.Join(words, " ") + "\n" +
		end + "\n}\n", nil
}

// ownSession opens a session on a connection that is used for nothing else, since it may be open for long.
func (p *Provider) ownSession(ctx context.Context, m *Host) (*ssh.Session, func(), error) {
	client, err := p.dial(ctx, m)
	if err != nil {
		return nil, nil, m.says(err)
	}
	s, err := open(ctx, &connection{client: client})
	if err != nil {
		_ = client.Close()
		return nil, nil, m.says(xerrors.Errorf("open a session: %w", err))
	}
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	return s, func() { stop(); _ = client.Close() }, nil
}

// Logs returns the output of prepare and reset, from the beginning.
func (p *Provider) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	m, _, err := p.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	s, done, err := p.ownSession(ctx, m)
	if err != nil {
		return nil, err
	}
	in, inErr := s.StdinPipe()
	out, outErr := s.StdoutPipe()
	if err := errors.Join(inErr, outErr, s.Start(shell)); err != nil {
		done()
		return nil, m.says(err)
	}
	if _, err := io.WriteString(in, request{op: "logs", dir: p.config.Directory, ref: ref, follow: follow}.script()); err != nil {
		done()
		return nil, m.says(err)
	}
	text := bufio.NewReader(out)
	for {
		line, err := text.ReadString('\n')
		switch {
		case line == "==log==\n":
			return &logReader{text, in, done}, nil
		case line == "==prewarm==\n":
			done()
			return nil, provider.ErrNotFound
		case err != nil:
			done()
			return nil, m.says(xerrors.Errorf("read logs: %w", err))
		}
	}
}

// logReader keeps the session's input open: its end is how the machine learns that nobody reads on.
type logReader struct {
	*bufio.Reader
	in   io.Closer
	done func()
}

func (l *logReader) Close() error {
	_ = l.in.Close()
	l.done()
	return nil
}
