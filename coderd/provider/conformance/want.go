package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// want is an error unless it holds.
func want(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return xerrors.Errorf(format, args...)
}

// wantError is an error unless err is the one that is wanted.
func wantError(err, wanted error, doing string) error {
	return want(errors.Is(err, wanted), "%s: got the error %v, want %v", doing, err, wanted)
}

// settle repeats a look until it finds what is wanted, or the time for that is over.
func (t *trial) settle(ctx context.Context, look func() error) error {
	return t.poll(ctx, t.Settle, look)
}

const pollEvery = 20 * time.Millisecond

func (t *trial) poll(ctx context.Context, most time.Duration, look func() error) error {
	start := t.Clock.Now("conformance", "poll")
	for pause := pollEvery; ; pause = min(pause*3/2, 2*time.Second) {
		err := look()
		if err == nil || t.Clock.Since(start, "conformance", "poll") >= most {
			return err
		}
		if ended := wait.For(ctx, t.Clock, pause, "conformance", "poll"); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// wantNames is an error unless the listing of a side has exactly these of our names.
func (t *trial) wantNames(ctx context.Context, s side, names ...string) error {
	wanted := lists.Of(names, func(n string) string { return t.Prefix + n })
	slices.Sort(wanted)
	return t.settle(ctx, func() error {
		all, err := t.list(ctx, s)
		if err != nil {
			return err
		}
		got := lists.Of(all, func(instance provider.Instance) string { return instance.Name })
		slices.Sort(got)
		return want(slices.Equal(got, wanted), "the listing has %q, want %q", got, wanted)
	})
}

// wantGone is an error unless there is nothing that ref means.
func (t *trial) wantGone(ctx context.Context, ref provider.Ref) error {
	return t.settle(ctx, func() error {
		_, err := t.Provider.Get(ctx, ref)
		return wantError(err, provider.ErrNotFound, fmt.Sprintf("get %s after its deletion", ref.Name))
	})
}

// running is what the provider says of one that it must say runs.
func (t *trial) running(ctx context.Context, p provider.Provider, ref provider.Ref) (i provider.Instance) {
	t.must(t.settle(ctx, func() (err error) {
		if i, err = p.Get(ctx, ref); err != nil {
			return xerrors.Errorf("get %+v: %w", ref, err)
		}
		return want(i.Status == provider.StatusRunning, "get %+v: the status is %q %s, want %q", ref, i.Status, i.Fault,
			provider.StatusRunning)
	}))
	return i
}

// wantReady is an error unless it becomes ready in time, and has not failed.
func (t *trial) wantReady(ctx context.Context, ref provider.Ref, it string) error {
	var last provider.Readiness
	err := t.poll(ctx, t.Deadline, func() error {
		var err error
		if last, err = t.Other.Ready(ctx, ref); err != nil {
			return xerrors.Errorf("ask whether it is ready: %w", err)
		}
		return want(last.Ready || last.Failed, "%s is not ready after %s: %s", it, t.Deadline, last.Detail)
	})
	return errors.Join(err, want(!last.Failed, "%s has failed: %s", it, last.Detail),
		want(last.Ready != last.Failed || err != nil, "%s is ready and has failed: %s", it, last.Detail))
}

// each runs f n times at once and joins the errors.
func each(n int, f func(n int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
