package hosts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"
)

// shell is all that is ever on a command line: the operation follows on its standard input.
const shell = "exec sh -s"

// maxAnswer bounds what is read of a machine's answer, in bytes.
const maxAnswer = 256 << 10

// ask sends an operation to a machine and reads its answer. The error names the machine and its address (S2).
func (p *Provider) ask(ctx context.Context, m *Host, r request) (answer, error) {
	r.dir = p.config.Directory
	a, err := p.answer(ctx, m, r)
	if err != nil {
		return a, m.says(err)
	}
	return a, nil
}

func (p *Provider) answer(caller context.Context, m *Host, r request) (answer, error) {
	if err := caller.Err(); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeoutCause(caller, time.Duration(p.config.CallTimeout), errCallTimeout)
	defer cancel()
	out, err := p.session(ctx, m, r.script())
	switch {
	case caller.Err() != nil:
		return answer{}, caller.Err()
	case err != nil && errors.Is(context.Cause(ctx), errCallTimeout):
		return answer{}, xerrors.Errorf("it did not answer within %s", time.Duration(p.config.CallTimeout))
	}
	a, parseErr := parseAnswer(out.String())
	if parseErr != nil && a.outcome == "" {
		said := strings.TrimSpace(out.errors.String())
		err = cmp.Or(err, parseErr)
		if said != "" {
			err = xerrors.Errorf("%w: it says: %s", err, said)
		}
		return answer{}, err
	}
	return a, parseErr
}

var errCallTimeout = errors.New("the machine did not answer in time")

// output is what a session said, up to a limit.
type output struct {
	limited
	errors limited
}

type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if room := maxAnswer - l.Len(); room > 0 {
		_, _ = l.Buffer.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

// session runs a script on the machine.
func (p *Provider) session(ctx context.Context, m *Host, script string) (*output, error) {
	out := &output{}
	err := p.withSession(ctx, m, func(s *ssh.Session) (broken bool, err error) {
		s.Stdin, s.Stdout, s.Stderr = strings.NewReader(script), out, &out.errors
		err = p.runScript(ctx, s)
		_, missing := errors.AsType[*ssh.ExitMissingError](err)
		return ctx.Err() != nil && errors.Is(context.Cause(ctx), errCallTimeout) || missing, err
	})
	return out, err
}

// withSession uses a session on a connection that may have been there before. One that turns out to be dead before anything was
// sent is replaced once. A connection that is broken is not used again.
func (p *Provider) withSession(ctx context.Context, m *Host, use func(*ssh.Session) (broken bool, err error)) error {
	for {
		c, fresh, err := p.connections.get(ctx, m)
		if err != nil {
			return err
		}
		s, err := open(ctx, c)
		if err != nil {
			p.connections.done(c, true)
			if ctx.Err() == nil && !fresh {
				continue
			}
			return xerrors.Errorf("open a session: %w", err)
		}
		broken, err := use(s)
		p.connections.done(c, broken)
		return err
	}
}

// open begins a session. Where the peer is frozen it is left to end by itself when the connection is closed.
func open(ctx context.Context, c *connection) (*ssh.Session, error) {
	type opened struct {
		s   *ssh.Session
		err error
	}
	result := make(chan opened, 1)
	go func() {
		s, err := c.client.NewSession()
		result <- opened{s, err}
	}()
	select {
	case <-ctx.Done():
		go func() {
			if o := <-result; o.s != nil {
				_ = o.s.Close()
			}
		}()
		return nil, ctx.Err()
	case o := <-result:
		return o.s, o.err
	}
}

// lastWords is how long an operation may go on that was given up.
const lastWords = 5 * time.Second

// runScript runs the script on the session's standard input. One that is given up may have been sent whole though the
// machine has yet to begin with it: it would begin after what is asked next. So its end is waited for, for a while. A machine
// that does not answer in time is not.
func (p *Provider) runScript(ctx context.Context, s *ssh.Session) error {
	lingering, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errCallTimeout) {
			cancel()
			return
		}
		p.clock.AfterFunc(lastWords, cancel, "hosts", "last words")
	})
	defer stop()
	return runSession(lingering, s, shell)
}

// runSession runs a command to its end, or until ctx ends: then the session is closed, and not waited for.
func runSession(ctx context.Context, s *ssh.Session, command string) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Run(command) }()
	select {
	case <-ctx.Done():
		go func() { _ = s.Close() }()
		return ctx.Err()
	case err := <-ended:
		_ = s.Close()
		return err
	}
}

// exitStatus is how a command ended, as a shell says it.
func exitStatus(err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return 128 + int(unix.SignalNum("SIG"+exit.Signal())), nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	}
	return 0, err
}
