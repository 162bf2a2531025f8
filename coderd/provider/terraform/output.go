package terraform

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/wait"
)

const (
	storeEvery  = time.Second // output, at most
	storeFor    = 2 * time.Second
	followEvery = time.Second
)

// recorder stores what is written to it, now and then and at its end. What it cannot store is lost: it is for people, and no run fails
// for it.
type recorder struct {
	append func(ctx context.Context, text string) error
	ctx    context.Context //nolint:containedctx // of the run, which Write has none of
	stop   func()
	ticks  quartz.Waiter

	mu   sync.Mutex
	text []byte // that is not stored yet; a command writes maxOutput at most
}

// record begins to record the output of a run. Its end must be called.
func (p *Provider) record(ctx context.Context, workspaceID uuid.UUID, token string) *recorder {
	r := &recorder{
		ctx: context.WithoutCancel(ctx), // what was said last says how it ended
		append: func(ctx context.Context, text string) error {
			return p.States.AppendOutput(ctx, workspaceID, token, text)
		},
	}
	ticking, stop := context.WithCancel(r.ctx)
	r.stop = stop
	r.ticks = p.Runner.Clock.TickerFunc(ticking, storeEvery, func() error {
		r.store()
		return nil
	}, "terraform", "output")
	return r
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = append(r.text, p...)
	return len(p), nil
}

func (r *recorder) store() {
	r.mu.Lock()
	text := string(r.text)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.ctx, storeFor)
	defer cancel()
	if text == "" || r.append(ctx, text) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = r.text[len(text):]
}

func (r *recorder) end() {
	r.stop()
	_ = r.ticks.Wait()
	r.store()
}

// Logs implements provider.Logger: what Terraform has said of the workspace, as far as it is kept.
func (p *Provider) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	id, err := idOf(ref)
	if err != nil {
		return nil, err
	}
	if id == uuid.Nil {
		is, err := p.find(ctx, ref)
		if err != nil {
			return nil, err
		}
		id = is.WorkspaceID
	}
	ctx, cancel := context.WithCancel(ctx)
	return &logs{ctx: ctx, cancel: cancel, p: p, id: id, follow: follow}, nil
}

// logs is the output of a workspace. When it follows, reading waits at the end for more until nothing is left of the workspace.
type logs struct {
	ctx    context.Context //nolint:containedctx // it bounds Read, which takes none
	cancel context.CancelFunc
	p      *Provider
	id     uuid.UUID
	follow bool
	gone   bool   // nothing was left of it at the last look
	text   string // that is to be read next
	end    int64  // the place of its end
}

func (r *logs) Read(b []byte) (n int, err error) {
	for r.text == "" {
		over := !r.follow || r.gone // the run that removed it says so a moment later: that is one look more
		if !over {
			if r.gone, err = r.p.gone(r.ctx, r.id); err != nil {
				return 0, err
			}
		}
		if r.text, r.end, err = r.p.States.Output(r.ctx, r.id, r.end); err != nil {
			return 0, err
		}
		if r.text != "" {
			break
		}
		if over {
			return 0, io.EOF
		}
		if err := wait.For(r.ctx, r.p.Runner.Clock, followEvery, "terraform", "follow"); err != nil {
			return 0, err
		}
	}
	n = copy(b, r.text)
	r.text = r.text[n:]
	return n, nil
}

// gone says whether nothing is left of a workspace and nobody makes anything of it.
func (p *Provider) gone(ctx context.Context, id uuid.UUID) (bool, error) {
	switch _, err := p.States.Of(ctx, id); {
	case err == nil:
		return false, nil
	case !errors.Is(err, provider.ErrNotFound):
		return false, err
	}
	due, err := p.States.WorkIsDue(ctx, id)
	return !due, err
}

func (r *logs) Close() error {
	r.cancel()
	return nil
}
