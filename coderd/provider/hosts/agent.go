package hosts

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/program"
)

// HostsAgent marks this as a provider that runs agents.
func (*Provider) HostsAgent() {}

// withAgent has a request bring what the agent needs: which program it is, where the server is, and the token. They are
// files that the machine's user alone may read; the program is sent apart, to machines that do not have it.
func (p *Provider) withAgent(r *request, m *Host, callback provider.Callback) error {
	if callback.Token == "" {
		return nil
	}
	server, err := callback.Server(p.config.CallbackHost)
	if err != nil {
		return err
	}
	if provider.Loopback(server.Hostname()) && !provider.Loopback(m.Address) {
		return provider.Permanent(m.says(xerrors.Errorf("its agent cannot reach the server at %s, which is the machine itself: "+
			"start the server with --access-url, or set callback_host", server)))
	}
	binary, err := p.program(m)
	if err != nil {
		return err
	}
	defer binary.Close()
	if r.agent, err = p.sums.Of(binary); err != nil {
		return err
	}
	r.files["agent"] = fmt.Sprintf("r_agent=%s\nr_agent_url=%s\n", r.agent, quote(server.String()))
	r.files["agent-token"] = callback.Token
	if len(callback.CABundle) > 0 {
		r.files["authorities.pem"] = string(callback.CABundle)
	}
	return nil
}

// program opens the agent's program for a machine.
func (p *Provider) program(m *Host) (*program.Program, error) {
	file := cmp.Or(m.AgentBinary, p.config.AgentBinary)
	return program.Open(file)
}

// askWithAgent is ask for what may need the agent's program: where the machine does not have it, it is sent, and the machine
// is asked again.
func (p *Provider) askWithAgent(ctx context.Context, m *Host, r request) (answer, error) {
	a, err := p.ask(ctx, m, r)
	if err != nil || a.outcome != "agent" {
		return a, err
	}
	if err := p.send(ctx, m, a, r.agent); err != nil {
		return a, m.says(xerrors.Errorf("copy the agent: %w", err))
	}
	return p.ask(ctx, m, r)
}

var errAgentGone = errors.New("the agent was copied to it, and is gone again")

// receive is what a machine runs to take a program in: no line but one, since a login shell reads it. What was cut off, or
// is not what was sent, is not taken. Others go, but for the one of the workspace that is there; those under way have a dot
// in their names.
const receive = `umask 077; cd -- "$1" && mkdir -p agent && cat >"agent/$2.$3" && sum=$(sha256sum <"agent/$2.$3") && ` +
	`test "${sum%% *}" = "$2" && chmod 700 "agent/$2.$3" && mv -f "agent/$2.$3" "agent/$2" || ` +
	`{ rm -f "agent/$2.$3"; echo "it did not arrive whole" >&2; exit 1; }; ` +
	`used=$(. ./run/agent 2>/dev/null; echo "$r_agent"); ` +
	`for f in agent/*; do case $f in agent/*.*|agent/"$2"|agent/"$used") ;; *) rm -f "$f";; esac; done`

// send copies the agent's program to a machine, which says what kind it is and where its directory is.
func (p *Provider) send(ctx context.Context, m *Host, a answer, sum string) error {
	binary, err := p.program(m)
	if err != nil {
		return err
	}
	defer binary.Close()
	if err := binary.RunsOn(a.detail); err != nil {
		return err
	}
	said := &limited{}
	id := strings.ToLower(rand.Text())
	err = p.withSession(ctx, m, func(s *ssh.Session) (bool, error) {
		s.Stdin, s.Stderr = binary, said
		err := runSession(ctx, s, "exec sh -c "+quote(receive)+" sh "+quote(a.dir)+" "+sum+" "+id)
		return err != nil, err
	})
	if words := strings.TrimSpace(said.String()); err != nil && ctx.Err() == nil && words != "" {
		err = xerrors.Errorf("%w: it says: %s", err, words)
	}
	return err
}
