package api

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

type logsInput struct {
	WorkspaceRef
	Follow bool `query:"follow" doc:"Go on until the workspace is gone"`
}

func (s *server) registerLogs() {
	register(s, operation{
		id: "get-workspace-logs", method: http.MethodGet, path: "/workspaces/{workspace}/logs",
		action: auth.ActEnterWorkspace, tag: "workspaces", endless: true,
		summary:     "Stream a workspace's output from its beginning",
		description: "As text/plain. 501 if the provider keeps no output, 421 if another replica has it.",
	}, s.workspaceLogs)
}

func (s *server) workspaceLogs(ctx context.Context, who auth.Identity, in *logsInput) (*huma.StreamResponse, error) {
	row, logger, err := reach[provider.Logger](ctx, s, who, in.Ref, "show output")
	if err != nil {
		return nil, err
	}
	logs, err := logger.Logs(ctx, refOf(row), in.Follow)
	if err != nil {
		return nil, xerrors.Errorf("read output: %w", err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer func() { _ = logs.Close() }()
		_, w := humachi.Unwrap(hc)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		// An error ends the stream, and a client that counts on its end asked without follow.
		_, _ = io.Copy(flusher{w, http.NewResponseController(w)}, logs)
	}}, nil
}

// flusher sends what is written at once, since it is read as it comes.
type flusher struct {
	w  io.Writer
	rc *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, f.rc.Flush()
}
