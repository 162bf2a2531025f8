package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

type (
	startInput struct {
		WorkspaceRef
		Body sdk.ProcessStart
	}
	// ProcessRef names one; huma fills what is embedded only where it is exported.
	ProcessRef struct {
		WorkspaceRef
		ID string `path:"process" doc:"The id of a process"`
	}
	outputInput struct {
		ProcessRef
		Offset int64 `query:"offset" minimum:"0" doc:"Of the first byte to read, counted over both streams"`
		Follow bool  `query:"follow" doc:"Whether to wait for more until the process has ended"`
	}
	stdinInput struct {
		ProcessRef
		EOF bool `query:"eof" doc:"Whether the input ends with this"`
	}
	signalInput struct {
		ProcessRef
		Body sdk.ProcessSignal
	}
	resizeInput struct {
		ProcessRef
		Body sdk.WindowSize
	}
	attachInput struct {
		ProcessRef
		Offset  int64  `query:"offset" minimum:"0" doc:"Of the first byte of output to receive"`
		Upgrade string `header:"Upgrade" hidden:"true"`
	}
)

// lines says what the lines of output are.
const lines = "The answer is NDJSON, a line for each piece of output: `offset` counts the bytes of both streams, `stream` is stdout or " +
	"stderr. The bytes are in `text`, or in `data` as base64 where they are not UTF-8. `cut` says that so many bytes from the " +
	"offset on are not kept any more. The last line has `exit_code`. Output that ends without it was cut off: ask again, at the " +
	"offset after the last byte that came."

func (s *server) registerProcesses() {
	const processes, process = "/workspaces/{workspace}/processes", "/workspaces/{workspace}/processes/{process}"
	op := func(id, method, path, summary, description string) operation {
		return operation{
			id: id, method: method, path: path, action: auth.ActUseWorkspace, tag: "processes", summary: summary, description: description,
		}
	}
	register(s, op("list-processes", http.MethodGet, processes, "List the processes in a claimed workspace", ""), s.listProcesses)
	start := op("start-process", http.MethodPost, processes, "Start a process in a claimed workspace",
		"It goes on when the client goes, and ends with the claim. Of its output the last 1 MiB is kept. Only the user of the claim "+
			"may. 501 if the workspace has no agent, or its template turns the data plane off.")
	start.status = http.StatusCreated
	register(s, start, s.startProcess)
	run := op("run-process", http.MethodPost, "/workspaces/{workspace}/run", "Start a process in a claimed workspace, and read its output",
		"As starting it and following its output in one request. The first line has the id of the process. "+lines)
	run.endless = true
	register(s, run, s.runProcess)
	register(s, op("show-process", http.MethodGet, process, "Show a process", ""), s.processAt(""))
	output := op("read-process-output", http.MethodGet, process+"/output", "Read the output of a process from an offset on",
		lines+" With `follow` the process waits, as at a pipe, for a reader that is more than 1 MiB behind; without readers it runs on.")
	output.endless = true
	register(s, output, s.processOutput)
	await := op("await-process", http.MethodGet, process+"/wait", "Wait for the end of a process",
		"Answers when the process has ended, or after 25 s as it is then.")
	await.endless = true
	register(s, await, s.processAt("/wait"))
	stdin := op("write-process", http.MethodPost, process+"/stdin", "Write to the input of a process",
		"The body is what is written, at most 1 MiB where its length is said before. 409 if the process has no input.")
	stdin.status, stdin.endless = http.StatusNoContent, true
	register(s, stdin, s.writeProcess)
	signal := op("signal-process", http.MethodPost, process+"/signal", "Send a signal to a process and its children", "")
	signal.status = http.StatusNoContent
	register(s, signal, s.signalProcess)
	resize := op("resize-process", http.MethodPost, process+"/resize", "Set the size of the terminal of a process", "")
	resize.status = http.StatusNoContent
	register(s, resize, s.resizeProcess)
	attach := op("attach-process", http.MethodGet, process+"/attach", "Attach to a process, over a WebSocket",
		"The protocol is that of exec. Its first message is the same here: its `rows` and `cols` count. Its `command`, which must not be "+
			"empty, is not run. The process goes on when the client goes.")
	attach.endless = true
	register(s, attach, s.attachProcess)
}

func (in ProcessRef) path(rest string) (string, error) {
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return "", auth.Refuse(auth.ErrNotFound, "there is no process %q", in.ID)
	}
	return "/processes/" + id.String() + rest, nil
}

// of finds the workspace of a process, and where the agent has the process.
func (s *server) of(ctx context.Context, who auth.Identity, in ProcessRef, rest string) (entrance, string, error) {
	e, err := s.inside(ctx, who, in.Ref)
	if err != nil {
		return e, "", err
	}
	path, err := in.path(rest)
	return e, path, err
}

func (s *server) listProcesses(ctx context.Context, who auth.Identity, in *WorkspaceRef) (*body[[]sdk.Process], error) {
	return askInside[[]sdk.Process](ctx, s, who, in.Ref, get("/processes", nil))
}

func (s *server) startProcess(ctx context.Context, who auth.Identity, in *startInput) (*body[sdk.Process], error) {
	e, err := s.begins(ctx, who, in)
	if err != nil {
		return nil, err
	}
	started, err := ask[sdk.Process](ctx, s, e, post("/processes", in.Body))
	if err != nil {
		return nil, err
	}
	s.began(ctx, e, started.Body.ID, in.Body.TTY)
	return started, nil
}

// begins checks what is to be started, and gives it an id: sent again it is the same.
func (s *server) begins(ctx context.Context, who auth.Identity, in *startInput) (entrance, error) {
	if _, err := in.Body.Check(); err != nil {
		return entrance{}, auth.Refuse(auth.ErrInvalid, "%s", err)
	}
	if in.Body.ID == nil {
		id := uuid.New()
		in.Body.ID = &id
	}
	return s.inside(ctx, who, in.Ref)
}

// began records a process, and its end when that comes.
func (s *server) began(ctx context.Context, e entrance, id uuid.UUID, tty bool) {
	end := s.begin(e, "process", map[string]any{"process_id": id, "tty": tty})
	go s.watchEnd(context.WithoutCancel(ctx), e, id, end)
}

func (s *server) runProcess(ctx context.Context, who auth.Identity, in *startInput) (*huma.StreamResponse, error) {
	e, err := s.begins(ctx, who, in)
	if err != nil {
		return nil, err
	}
	resp, err := s.call(ctx, e, post("/run", in.Body)) //nolint:bodyclose // pass closes it
	if err != nil {
		return nil, err
	}
	s.began(ctx, e, *in.Body.ID, in.Body.TTY)
	return s.pass(ctx, resp), nil
}

// pass hands on the lines of an agent as they come.
func (s *server) pass(ctx context.Context, resp *http.Response) *huma.StreamResponse {
	return s.passAs(ctx, resp, http.StatusOK, map[string]string{"Content-Type": "application/x-ndjson", "X-Accel-Buffering": "no"})
}

// passAs hands on what an agent answers as it comes, and nothing of its headers: nobody trusts it.
func (s *server) passAs(ctx context.Context, resp *http.Response, status int, header map[string]string) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer resp.Body.Close()
		_, w := humachi.Unwrap(hc)
		for name, value := range header {
			hc.SetHeader(name, value)
		}
		hc.SetStatus(status)
		if _, err := io.Copy(flusher{w, http.NewResponseController(w)}, resp.Body); err != nil {
			s.Log.Debug(ctx, "output ended early", slog.F("request", requestIDOf(ctx)), slog.Error(err))
			panic(http.ErrAbortHandler) // the client sees that it is not the end
		}
	}}
}

// processAt shows a process, as the agent has it at that path of the process: now, or when it has ended.
func (s *server) processAt(rest string) func(context.Context, auth.Identity, *ProcessRef) (*body[sdk.Process], error) {
	return func(ctx context.Context, who auth.Identity, in *ProcessRef) (*body[sdk.Process], error) {
		e, path, err := s.of(ctx, who, *in, rest)
		if err != nil {
			return nil, err
		}
		return ask[sdk.Process](ctx, s, e, get(path, nil))
	}
}

func (s *server) processOutput(ctx context.Context, who auth.Identity, in *outputInput) (*huma.StreamResponse, error) {
	e, path, err := s.of(ctx, who, in.ProcessRef, "/output")
	if err != nil {
		return nil, err
	}
	query := url.Values{"offset": {strconv.FormatInt(in.Offset, 10)}, "follow": {strconv.FormatBool(in.Follow)}}
	resp, err := s.call(ctx, e, get(path, query)) //nolint:bodyclose // pass closes it
	if err != nil {
		return nil, err
	}
	return s.pass(ctx, resp), nil
}

func (s *server) writeProcess(ctx context.Context, who auth.Identity, in *stdinInput) (*huma.StreamResponse, error) {
	e, path, err := s.of(ctx, who, in.ProcessRef, "/stdin")
	if err != nil {
		return nil, err
	}
	return s.send(ctx, e, request{method: http.MethodPost, path: path, query: url.Values{"eof": {strconv.FormatBool(in.EOF)}}}), nil
}

// send hands on the body of a request to the agent as it comes, and what it answers. A client that waits to be asked for its
// body is asked by the agent.
func (s *server) send(ctx context.Context, e entrance, to request) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humachi.Unwrap(hc)
		if to.body = http.NoBody; r.ContentLength != 0 {
			to.body, to.length = struct{ io.Reader }{r.Body}, r.ContentLength
		}
		if expects := r.Header.Values("Expect"); len(expects) > 0 {
			to.header = http.Header{"Expect": expects}
		}
		resp, err := s.call(ctx, e, to)
		if err != nil {
			s.refuse(hc, s.problem(ctx, err))
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusNoContent {
			hc.SetStatus(http.StatusNoContent)
			return
		}
		hc.SetHeader("Content-Type", "application/json")
		hc.SetStatus(http.StatusOK)
		_, _ = io.Copy(w, io.LimitReader(resp.Body, maxBody))
	}}
}

func (s *server) signalProcess(ctx context.Context, who auth.Identity, in *signalInput) (*none, error) {
	return s.tell(ctx, who, in.ProcessRef, "/signal", in.Body)
}

func (s *server) resizeProcess(ctx context.Context, who auth.Identity, in *resizeInput) (*none, error) {
	return s.tell(ctx, who, in.ProcessRef, "/resize", in.Body)
}

func (s *server) tell(ctx context.Context, who auth.Identity, in ProcessRef, rest string, what any) (*none, error) {
	e, path, err := s.of(ctx, who, in, rest)
	if err != nil {
		return nil, err
	}
	_, err = ask[none](ctx, s, e, post(path, what))
	return nil, err
}

func (s *server) attachProcess(ctx context.Context, who auth.Identity, in *attachInput) (*huma.StreamResponse, error) {
	e, path, err := s.of(ctx, who, in.ProcessRef, "")
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(in.Upgrade, "websocket") {
		return nil, huma.NewError(http.StatusUpgradeRequired, "attaching is a WebSocket: ask for an upgrade")
	}
	if _, err := ask[sdk.Process](ctx, s, e, get(path, nil)); err != nil { // before the upgrade, so that it has a status
		return nil, err
	}
	query := url.Values{"offset": {strconv.FormatInt(in.Offset, 10)}}
	return s.speakExec(ctx, e, func(ctx context.Context, session sdk.ExecSession) (int, error) {
		end := s.begin(e, "attach", map[string]any{"process_id": in.ID})
		defer end(nil)
		return s.execAt(ctx, e, path+"/attach", query, session)
	}), nil
}

// execInside runs a command through the tunnel of the workspace's agent.
func (s *server) execInside(ctx context.Context, e entrance, session sdk.ExecSession) (int, error) {
	return s.execAt(ctx, e, "/exec", nil, session)
}

func (s *server) execAt(ctx context.Context, e entrance, path string, query url.Values, session sdk.ExecSession) (code int, err error) {
	_, err = s.patiently(ctx, e, func(e entrance) (err error) {
		code, err = sdk.ExecOver(ctx, &http.Client{Transport: s.Tunnels.Transport(e.target())}, e.address(path, query),
			http.Header{sdk.ClaimHeader: {e.ClaimID.UUID.String()}}, sdk.ExecRequest(session))
		return err
	})
	if unsent := (&url.Error{}); errors.As(err, &unsent) { // there was no answer yet
		err = tunnelProblem(ctx, e, err)
	}
	return code, err
}

// speakExec has the exec protocol spoken with the client, and run do the rest.
func (s *server) speakExec(
	ctx context.Context, e entrance, run func(context.Context, sdk.ExecSession) (int, error),
) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		if s.Tunnels != nil {
			defer s.Tunnels.Hold()()
		}
		r, w := humachi.Unwrap(hc)
		conn, err := websocket.Accept(w, r, nil) // refuses another origin, and answers itself
		if err != nil {
			s.Log.Debug(ctx, "exec without a connection", slog.F("request", requestIDOf(ctx)), slog.Error(err))
			return
		}
		err = sdk.ServeExec(ctx, s.Clock, conn, func(ctx context.Context, session sdk.ExecSession) (int, error) {
			code, err := run(ctx, session)
			if why := context.Cause(ctx); errors.Is(why, auth.ErrNotAllowed) { // the client gets this reason, not how the command ended for it
				return 0, why
			}
			if cut := (&sdk.StreamError{}); errors.As(err, &cut) {
				err = s.endOf(ctx, e, err)
			}
			return code, err
		})
		if err != nil {
			s.Log.Debug(ctx, "exec ended early", slog.F("request", requestIDOf(ctx)), slog.Error(err))
		}
	}}
}
