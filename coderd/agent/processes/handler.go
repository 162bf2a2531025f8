package processes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	waitMost = 25 * time.Second
	maxStart = 1 << 20
)

// Handler serves the table.
func (t *Table) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /processes", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, t.list()) })
	mux.HandleFunc("POST /processes", t.serveStart)
	mux.HandleFunc("POST /run", t.serveRun)
	mux.HandleFunc("GET /exec", t.serveExec)
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, *process) error{
		"GET /processes/{id}": func(w http.ResponseWriter, _ *http.Request, p *process) error {
			answer(w, http.StatusOK, p.show())
			return nil
		},
		"GET /processes/{id}/output":  t.serveOutput,
		"GET /processes/{id}/wait":    t.serveWait,
		"GET /processes/{id}/attach":  t.serveAttach,
		"POST /processes/{id}/stdin":  t.serveStdin,
		"POST /processes/{id}/resize": t.serveResize,
		"POST /processes/{id}/signal": t.serveSignal,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p, err := t.process(r.PathValue("id"))
			if err == nil {
				err = serve(w, r, p)
			}
			if err != nil {
				refuse(w, err)
			}
		})
	}
	return t.ForClaim(mux)
}

// ForClaim has the table be the claim's that a request is of, before a handler serves it.
func (t *Table) ForClaim(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.of(r.Header.Get(sdk.ClaimHeader))
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with what is wrong, for people.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, errUnknown):
		status = http.StatusNotFound
	case errors.Is(err, errFull):
		status = http.StatusTooManyRequests
	case errors.Is(err, errEnded), errors.Is(err, errNoInput), errors.Is(err, errClosed):
		status = http.StatusConflict
	}
	answer(w, status, map[string]string{"detail": err.Error()})
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, maxStart)).Decode(into); err != nil {
		return xerrors.Errorf("decode request: %w", err)
	}
	return nil
}

// started starts the process of a request, or refuses it.
func (t *Table) started(w http.ResponseWriter, r *http.Request) (*process, bool) {
	var start sdk.ProcessStart
	err := decode(r, &start)
	var p *process
	if err == nil {
		p, err = t.start(start)
	}
	if err != nil {
		refuse(w, err)
	}
	return p, err == nil
}

func (t *Table) serveStart(w http.ResponseWriter, r *http.Request) {
	if p, ok := t.started(w, r); ok {
		answer(w, http.StatusCreated, p.show())
	}
}

// serveRun starts a process and follows its output.
func (t *Table) serveRun(w http.ResponseWriter, r *http.Request) {
	p, ok := t.started(w, r)
	if !ok {
		return
	}
	lines := ndjson(w)
	id := p.info.ID
	if lines.write(sdk.ProcessOutput{Process: &id}) == nil {
		p.follow(r.Context(), lines, 0, true)
	}
}

func (*Table) serveOutput(w http.ResponseWriter, r *http.Request, p *process) error {
	offset, err := offsetOf(r)
	if err != nil {
		return err
	}
	p.follow(r.Context(), ndjson(w), offset, r.URL.Query().Get("follow") == "true")
	return nil
}

func offsetOf(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("offset")
	if text == "" {
		return 0, nil
	}
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil || offset < 0 {
		return 0, xerrors.Errorf("offset %q: write a number of bytes", text)
	}
	return offset, nil
}

// lines writes NDJSON, each line at once.
type lines struct {
	encoder *json.Encoder
	control *http.ResponseController
}

func ndjson(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	l := lines{json.NewEncoder(w), http.NewResponseController(w)}
	l.encoder.SetEscapeHTML(false)
	return l
}

func (l lines) write(o sdk.ProcessOutput) error {
	if err := l.encoder.Encode(o); err != nil {
		return err
	}
	return l.control.Flush()
}

// follow writes the output from an offset on. The last line has the exit code, unless the process still runs.
func (p *process) follow(ctx context.Context, to lines, offset int64, follow bool) {
	at, _ := p.each(ctx, offset, follow, func(o sdk.ProcessOutput) error { return to.write(o) })
	if code := p.show().ExitCode; code != nil && ctx.Err() == nil {
		_ = to.write(sdk.ProcessOutput{Offset: at, ExitCode: code})
	}
}

// each hands out pieces until the end, ctx ends, or an error.
func (p *process) each(ctx context.Context, offset int64, follow bool, do func(sdk.ProcessOutput) error) (at int64, err error) {
	r, detach := p.output.attach(offset)
	stop := context.AfterFunc(ctx, detach)
	defer stop()
	defer detach()
	for {
		next, ok := p.output.next(r, follow)
		if !ok {
			return r.at, ctx.Err()
		}
		line := sdk.ProcessOutput{Offset: next.offset, Cut: next.cut}
		n := 0
		if next.cut == 0 {
			n = fill(&line, next)
		}
		if err := do(line); err != nil {
			return r.at, err
		}
		p.output.read(r, n)
	}
}

// fill writes bytes into a line, as text where they are. A character that is not whole yet waits for its rest, if something is
// before it.
func fill(line *sdk.ProcessOutput, next piece) int {
	line.Stream = "stdout"
	if next.stream == stderr {
		line.Stream = "stderr"
	}
	data := next.data
	if !utf8.Valid(data) {
		for cut := 1; cut < utf8.UTFMax && cut < len(data); cut++ {
			if head, rest := data[:len(data)-cut], data[len(data)-cut:]; utf8.Valid(head) && !utf8.FullRune(rest) {
				data = head
				break
			}
		}
	}
	if utf8.Valid(data) {
		line.Text = string(data)
	} else {
		line.Data = data
	}
	return len(data)
}

// serveWait answers when the process has ended, or after a while.
func (t *Table) serveWait(w http.ResponseWriter, r *http.Request, p *process) error {
	timer := t.Clock.NewTimer(waitMost, "processes", "wait")
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-r.Context().Done():
	}
	answer(w, http.StatusOK, p.show())
	return nil
}

func (*Table) serveStdin(w http.ResponseWriter, r *http.Request, p *process) error {
	if p.run.input == nil {
		return errNoInput
	}
	if _, err := io.Copy(p.run.input, r.Body); err != nil {
		return xerrors.Errorf("%w: %w", errEnded, err)
	}
	if r.URL.Query().Get("eof") == "true" {
		if p.run.terminal != nil {
			return xerrors.Errorf("the input of a terminal cannot be closed: write Ctrl-D: %w", errNoInput)
		}
		_ = p.run.input.Close()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (*Table) serveResize(w http.ResponseWriter, r *http.Request, p *process) error {
	var size sdk.WindowSize
	if err := decode(r, &size); err != nil {
		return err
	}
	if err := p.run.resize(size); err != nil {
		return xerrors.Errorf("%w: %w", errNoInput, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (*Table) serveSignal(w http.ResponseWriter, r *http.Request, p *process) error {
	var signal sdk.ProcessSignal
	if err := decode(r, &signal); err != nil {
		return err
	}
	if err := p.run.signalNamed(signal.Signal); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// serveAttach speaks the exec protocol with a process that runs: its output from an offset on, and its input. The process goes
// on when the client goes. The client's first message is an ExecStart, of which only the size of the terminal counts.
func (t *Table) serveAttach(w http.ResponseWriter, r *http.Request, p *process) error {
	offset, err := offsetOf(r)
	if err != nil {
		return err
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil //nolint:nilerr // it is answered
	}
	err = sdk.ServeExec(r.Context(), t.Clock, conn, func(ctx context.Context, s sdk.ExecSession) (int, error) {
		go p.resizes(s.Resize)
		if p.run.input != nil {
			go func() {
				if _, err := io.Copy(p.run.input, s.Stdin); err == nil && p.run.terminal == nil {
					_ = p.run.input.Close() // the client has ended it, and not only gone
				}
			}()
		}
		_, err := p.each(ctx, offset, true, func(o sdk.ProcessOutput) error {
			to := s.Stdout
			if o.Stream == "stderr" {
				to = s.Stderr
			}
			_, err := to.Write(o.Bytes())
			return err
		})
		if err != nil {
			return 0, err
		}
		<-p.done
		return *p.show().ExitCode, nil
	})
	if err != nil {
		t.Log.Debug(r.Context(), "attached client has gone", slog.Error(err))
	}
	return nil
}

func (p *process) resizes(sizes <-chan sdk.WindowSize) {
	for size := range sizes {
		_ = p.run.resize(size)
	}
}

// serveExec runs a command that ends with its client.
func (t *Table) serveExec(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	if err := sdk.ServeExec(r.Context(), t.Clock, conn, t.exec); err != nil {
		t.Log.Debug(r.Context(), "exec ended early", slog.Error(err))
	}
}

func (t *Table) exec(ctx context.Context, s sdk.ExecSession) (int, error) {
	run, err := t.execute(sdk.ProcessStart{
		Command: s.Command, Env: s.Env, TTY: s.TTY, Rows: s.Rows, Cols: s.Cols, Stdin: true,
	}, s.Stdout, s.Stderr)
	if err != nil {
		return 0, err
	}
	defer t.executed(run)
	spare := run.killWith(ctx)
	defer spare()
	go run.feed(s.Stdin)
	if run.terminal != nil {
		go func() {
			for size := range s.Resize {
				_ = run.resize(size)
			}
		}()
	}
	return run.wait(), ctx.Err()
}

// execute starts a command that is no row of the table. executed must follow its end.
func (t *Table) execute(start sdk.ProcessStart, stdout, stderr io.Writer) (*running, error) {
	if _, err := start.Check(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	if len(t.execs) >= mostRunning {
		return nil, errFull
	}
	m := &meter{}
	run, err := run(t.Clock, t.spec(start), sinks{m.of(stdout), m.of(stderr)}, m.moves)
	if err != nil {
		return nil, err
	}
	t.execs[run] = struct{}{}
	t.running.Add(1)
	return run, nil
}

func (t *Table) executed(r *running) {
	t.mu.Lock()
	delete(t.execs, r)
	t.mu.Unlock()
	t.running.Done()
}

// meter sees whether output moves, or waits for who reads it.
type meter struct{ bytes, writing atomic.Int64 }

type metered struct {
	*meter
	to io.Writer
}

func (m *meter) of(to io.Writer) io.Writer { return metered{m, to} }

func (m metered) Write(p []byte) (int, error) {
	m.writing.Add(1)
	defer m.writing.Add(-1)
	n, err := m.to.Write(p)
	m.bytes.Add(int64(n))
	return n, err
}

func (m *meter) moves() (int64, bool) { return m.bytes.Load(), m.writing.Load() > 0 }
