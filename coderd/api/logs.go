package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// maxLogs is how many outputs one user may read at once at a replica. One that is followed is looked at some ten times a
// second, and a client that does not read holds a buffer for as long as it likes.
const maxLogs = 200

type logsInput struct {
	WorkspaceRef
	Follow bool `query:"follow" doc:"Go on until the workspace is gone"`
}

func (s *server) registerLogs() {
	register(s, operation{
		id: "get-workspace-logs", method: http.MethodGet, path: "/workspaces/{workspace}/logs",
		action: auth.ActEnterWorkspace, tag: "workspaces", endless: true,
		summary: "Stream a workspace's output from its beginning",
		description: "As text/plain. 501 if the provider keeps no output, 421 if another replica has it, 429 if you read very " +
			"many at once.",
	}, s.workspaceLogs)
}

func (s *server) workspaceLogs(ctx context.Context, who auth.Identity, in *logsInput) (*huma.StreamResponse, error) {
	row, logger, err := reach[provider.Logger](ctx, s, who, in.Ref, "show output")
	if err != nil {
		return nil, err
	}
	if !s.logs.begin(who.UserID, maxLogs) {
		return nil, huma.Error429TooManyRequests(fmt.Sprintf("you read the output of workspaces %d times at this replica, and "+
			"nobody may more often: end some", maxLogs))
	}
	logs, err := logger.Logs(ctx, refOf(row), in.Follow)
	if err != nil {
		s.logs.end(who.UserID)
		return nil, xerrors.Errorf("read output: %w", err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer s.logs.end(who.UserID)
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

// tally counts what each user, or each workspace, has open. The zero value is ready for use.
type tally struct {
	mu sync.Mutex
	of map[uuid.UUID]int
}

// begin counts one more of somebody's, unless there are as many as that.
func (t *tally) begin(whose uuid.UUID, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[whose] >= most {
		return false
	}
	if t.of == nil {
		t.of = map[uuid.UUID]int{}
	}
	t.of[whose]++
	return true
}

func (t *tally) end(whose uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[whose]--; t.of[whose] == 0 {
		delete(t.of, whose)
	}
}
