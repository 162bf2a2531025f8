package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

type execInput struct {
	WorkspaceRef
	Upgrade string `header:"Upgrade" hidden:"true"`
}

func (s *server) registerExec() {
	register(s, operation{
		id: "exec-workspace", method: http.MethodGet, path: "/workspaces/{workspace}/exec",
		action: auth.ActEnterWorkspace, tag: "workspaces", endless: true,
		summary: "Run a command inside a claimed workspace, over a WebSocket",
		description: "The client's first message is text, JSON with command, env, tty, rows and cols. Then come binary " +
			"messages whose first byte is the stream: 0 stdin, 1 stdout, 2 stderr, 3 end of stdin, 4 window size as JSON. " +
			"The server's last message is text, JSON with exit_code or error. It goes through the workspace's agent where that " +
			"has a tunnel, else through its provider. The answer is 501 if that cannot run commands, and 421 if another " +
			"replica reaches the workspace.",
	}, s.execWorkspace)
}

func (s *server) execWorkspace(ctx context.Context, who auth.Identity, in *execInput) (*huma.StreamResponse, error) {
	e, err := s.entranceOf(ctx, who, auth.ActEnterWorkspace, in.Ref)
	if err != nil {
		return nil, err
	}
	run, err := s.execThrough(ctx, e)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(in.Upgrade, "websocket") {
		return nil, huma.NewError(http.StatusUpgradeRequired, "exec speaks over a WebSocket: ask for an upgrade")
	}
	return s.speakExec(ctx, e, func(ctx context.Context, session sdk.ExecSession) (int, error) {
		end := s.begin(e, "exec", nil)
		code, err := run(ctx, session)
		end(map[string]any{"exit_code": code})
		return code, err
	}), nil
}

// execThrough is how a command gets into a workspace: through the tunnel of its agent where there is one, else through its
// provider, which may reach it from here. The tunnel is for the user of the claim, and for those that the workspace is open to.
func (s *server) execThrough(ctx context.Context, e entrance) (func(context.Context, sdk.ExecSession) (int, error), error) {
	inside := func(ctx context.Context, session sdk.ExecSession) (int, error) {
		s.whileOpen(ctx, e)
		return s.execInside(ctx, e, session)
	}
	tunnels := s.Tunnels != nil && e.HasAgent && e.DataPlane && (e.role() == "" || e.openToRole())
	if tunnels && e.TunnelID != uuid.Nil {
		return inside, nil
	}
	row, execer, err := reach[provider.Execer](ctx, s, e.who, e.ID.String(), "run commands")
	if err != nil && tunnels { // the agent may be about to open its tunnel again
		return inside, nil
	}
	if err != nil {
		return nil, err
	}
	if row.State != database.WorkspaceStateClaimed || row.Incarnation != e.Incarnation {
		return nil, auth.Refuse(auth.ErrConflict, "workspace %s is %s: only a claimed one can be entered", row.Name, row.State)
	}
	return func(ctx context.Context, session sdk.ExecSession) (int, error) {
		return execer.Exec(ctx, refOf(row), provider.ExecRequest{
			Command: session.Command, Env: session.Env, TTY: session.TTY, Stdin: session.Stdin,
			Stdout: session.Stdout, Stderr: session.Stderr, Resize: resizes(ctx, session.Resize),
		})
	}, nil
}

// resizes hands on the sizes of the client's terminal until it is gone.
func resizes(ctx context.Context, from <-chan sdk.WindowSize) <-chan provider.WindowSize {
	to := make(chan provider.WindowSize)
	go func() {
		defer close(to)
		for size := range from {
			select {
			case to <- provider.WindowSize(size):
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}
