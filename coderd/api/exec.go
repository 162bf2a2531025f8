package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

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
			"The server's last message is text, JSON with exit_code or error. 501 if the provider cannot run commands, " +
			"421 if another replica reaches the workspace.",
	}, s.execWorkspace)
}

func (s *server) execWorkspace(ctx context.Context, who auth.Identity, in *execInput) (*huma.StreamResponse, error) {
	row, execer, err := reach[provider.Execer](ctx, s, who, in.Ref, "run commands")
	if err != nil {
		return nil, err
	}
	// A prebuild that somebody was in would be handed on as new.
	if row.State != database.WorkspaceStateClaimed {
		return nil, auth.Refuse(auth.ErrConflict, "workspace %s is %s: only a claimed one can be entered", row.Name, row.State)
	}
	if !strings.EqualFold(in.Upgrade, "websocket") {
		return nil, huma.NewError(http.StatusUpgradeRequired, "exec speaks over a WebSocket: ask for an upgrade")
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humachi.Unwrap(hc)
		conn, err := websocket.Accept(w, r, nil) // refuses another origin, and answers itself
		if err != nil {
			s.Log.Debug(ctx, "exec without a connection", slog.F("request", requestIDOf(ctx)), slog.Error(err))
			return
		}
		err = sdk.ServeExec(ctx, s.Clock, conn, func(ctx context.Context, session sdk.ExecSession) (int, error) {
			code, err := execer.Exec(ctx, refOf(row), provider.ExecRequest{
				Command: session.Command, Env: session.Env, TTY: session.TTY, Stdin: session.Stdin,
				Stdout: session.Stdout, Stderr: session.Stderr, Resize: resizes(ctx, session.Resize),
			})
			if why := context.Cause(ctx); errors.Is(why, auth.ErrNotAllowed) { // the client is told, and not what it did to the command
				return 0, why
			}
			return code, err
		})
		if err != nil {
			s.Log.Debug(ctx, "exec ended early", slog.F("request", requestIDOf(ctx)), slog.Error(err))
		}
	}}, nil
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
