package api

import (
	"context"
	"net/http"
	"regexp"

	"github.com/danielgtaylor/huma/v2"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

type sshInput struct {
	WorkspaceRef
	Upgrade string `header:"Upgrade" hidden:"true"`
}

func (s *server) registerSSH() {
	register(s, operation{
		id: "connect-ssh", method: http.MethodGet, path: "/workspaces/{workspace}/ssh",
		action: auth.ActUseWorkspace, tag: "ssh", endless: true,
		summary: "Connect to the SSH server in a claimed workspace, over a WebSocket",
		description: "The bytes are SSH, in the form of `connect-port`: `prewarm ssh --stdio` is the ProxyCommand for it. It asks for " +
			"no password and no key, as only the user of the claim gets here. The user `" + sdk.SSHUser + "` is that of the agent. " +
			"Where that is root, other users of the workspace may be named. Code 4001 is the end of the claim.",
	}, s.connectSSH)
	register(s, operation{
		id: "read-ssh-host-key", method: http.MethodGet, path: "/workspaces/{workspace}/ssh/host-key",
		action: auth.ActUseWorkspace, tag: "ssh", summary: "Read the host key of the SSH server in a claimed workspace",
		description: "The agent makes it when it starts. Put it into a known_hosts file before you connect, and refuse any other.",
	}, s.sshHostKey)
}

func (s *server) connectSSH(ctx context.Context, who auth.Identity, in *sshInput) (*huma.StreamResponse, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	return s.relay(ctx, e, in.Upgrade, "/ssh", "ssh", nil)
}

func (s *server) sshHostKey(ctx context.Context, who auth.Identity, in *WorkspaceRef) (*body[sdk.SSHHostKey], error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return nil, err
	}
	said, err := ask[sdk.SSHHostKey](ctx, s, e, get("/ssh/host-key", nil))
	if err == nil && !oneHostKey.MatchString(said.Body.HostKey) {
		return nil, huma.Error502BadGateway("the agent of workspace " + e.Name + " gave no host key")
	}
	return said, err
}

// oneHostKey is what clients may write into a file of known hosts: a workspace must not add a line of another.
var oneHostKey = regexp.MustCompile(`^ssh-ed25519 [A-Za-z0-9+/]+=*$`)
