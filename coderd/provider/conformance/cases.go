package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

func createTwice(ctx context.Context, t *trial) error {
	req, first, err := t.create(ctx, "twice")
	if err != nil {
		return err
	}
	second, err := t.Other.Create(ctx, req)
	if err != nil {
		return xerrors.Errorf("create it again: %w", err)
	}
	return errors.Join(
		want(first.ProviderID == second.ProviderID, "created again, its id is %q, before %q", second.ProviderID, first.ProviderID),
		want(second.Tags == req.Tags, "its tags are %+v, want %+v", second.Tags, req.Tags),
		want(first.CreatedAt.Equal(second.CreatedAt), "it was made %s, before %s", second.CreatedAt, first.CreatedAt),
		t.wantNames(ctx, t.mine, "twice"),
	)
}

func createConflict(ctx context.Context, t *trial) error {
	_, first, err := t.create(ctx, "taken")
	if err != nil {
		return err
	}
	other := t.request("taken")
	_, err = t.Provider.Create(ctx, other)
	if err := wantError(err, provider.ErrConflict, "create another of that name"); err != nil {
		return err
	}
	if !provider.IsPermanent(err) {
		return xerrors.New("a conflict is not a permanent error")
	}
	// A worker then cleans up after its workspace by name. That must not hit the one that was there.
	if err := t.Provider.Delete(ctx, provider.Ref{Name: other.Name, WorkspaceID: other.Tags.WorkspaceID}); err != nil {
		return xerrors.Errorf("delete the other: %w", err)
	}
	there, err := t.wantRunning(ctx, t.Other, refOf(first))
	return errors.Join(err, want(err != nil || there.Tags == first.Tags, "its tags are %+v now, before %+v", there.Tags,
		first.Tags))
}

func get(ctx context.Context, t *trial) error {
	req, made, err := t.create(ctx, "found")
	if err != nil {
		return err
	}
	if made.ProviderID == "" {
		return xerrors.New("create returned no id")
	}
	for _, ref := range []provider.Ref{{Name: req.Name}, {ProviderID: made.ProviderID}, refOf(made)} {
		i, err := t.wantRunning(ctx, t.Other, ref)
		if err != nil {
			return err
		}
		if t.Settle > 0 { // addresses may come later
			made.Addresses, made.Environment = i.Addresses, i.Environment
		}
		if err := errors.Join(
			want(i.Tags == req.Tags, "its tags are %+v, want %+v", i.Tags, req.Tags),
			want(i.Name == req.Name, "its name is %q, want %q", i.Name, req.Name),
			want(i.ProviderID == made.ProviderID, "its id is %q, create said %q", i.ProviderID, made.ProviderID),
			want(reflect.DeepEqual(made.Addresses, i.Addresses), "its addresses are %v, create said %v", i.Addresses,
				made.Addresses),
			want(maps.Equal(made.Environment, i.Environment), "its environment is %v, create said %v", i.Environment,
				made.Environment),
			want(t.Ageless || !i.CreatedAt.IsZero(), "when it was made is not known"),
		); err != nil {
			return xerrors.Errorf("get %+v: %w", ref, err)
		}
	}
	return nil
}

func getUnknown(ctx context.Context, t *trial) error {
	unknown := provider.Ref{Name: t.Prefix + "unknown"}
	_, err := t.Provider.Get(ctx, unknown)
	_, readyErr := t.Provider.Ready(ctx, unknown)
	return errors.Join(
		wantError(err, provider.ErrNotFound, "get what does not exist"),
		wantError(readyErr, provider.ErrNotFound, "ask what does not exist whether it is ready"),
	)
}

func anotherWorkspace(ctx context.Context, t *trial) error {
	if _, _, err := t.create(ctx, "mine"); err != nil {
		return err
	}
	other := provider.Ref{Name: t.Prefix + "mine", WorkspaceID: uuid.New()}
	_, getErr := t.Provider.Get(ctx, other)
	_, readyErr := t.Provider.Ready(ctx, other)
	return errors.Join(
		wantError(getErr, provider.ErrNotFound, "get another's"),
		wantError(readyErr, provider.ErrNotFound, "ask another's whether it is ready"),
		t.Provider.Delete(ctx, other),
		t.wantNames(ctx, t.mine, "mine"),
	)
}

func list(ctx context.Context, t *trial) error {
	if err := errors.Join(t.wantNames(ctx, t.mine), t.wantNames(ctx, t.theirs)); err != nil {
		return err
	}
	for _, name := range []string{"one", "two"} {
		if _, _, err := t.create(ctx, name); err != nil {
			return err
		}
	}
	var theirs []string
	if t.Foreign != nil {
		theirs = []string{"three"}
		if _, _, err := t.createOf(ctx, t.theirs, "three"); err != nil {
			return err
		}
	}
	if err := errors.Join(t.wantNames(ctx, t.mine, "one", "two"), t.wantNames(ctx, t.theirs, theirs...)); err != nil {
		return err
	}
	// What the listing says of one is what a look-up says, but for its environment.
	return t.settle(ctx, func() error {
		all, err := t.list(ctx, t.mine)
		for _, i := range all {
			alone, getErr := t.Provider.Get(ctx, refOf(i))
			alone.Environment = nil
			err = errors.Join(err, getErr,
				want(reflect.DeepEqual(alone, i), "the listing has %+v, a look-up %+v", i, alone))
		}
		return err
	})
}

func becomesReady(ctx context.Context, t *trial) error {
	_, i, err := t.create(ctx, "soon")
	if err != nil {
		return err
	}
	return t.wantReady(ctx, refOf(i), "it")
}

func stopAndStart(ctx context.Context, t *trial) error {
	stopper, _ := provider.As[provider.Stopper](t.Provider)
	_, i, err := t.create(ctx, "stopped")
	if err != nil {
		return err
	}
	if _, err := t.wantRunning(ctx, t.Provider, refOf(i)); err != nil {
		return err
	}
	for range 2 {
		if err := stopper.Stop(ctx, refOf(i)); err != nil {
			return err
		}
		if err := t.settle(ctx, func() error {
			is, err := t.Other.Get(ctx, refOf(i))
			return errors.Join(err, want(is.Status == provider.StatusStopped, "stopped, its status is %q", is.Status))
		}); err != nil {
			return err
		}
		state, err := t.Other.Ready(ctx, refOf(i))
		if err := errors.Join(err, want(!state.Ready && !state.Failed, "stopped, it is said to be ready (%t) or to have failed "+
			"(%t): %s", state.Ready, state.Failed, state.Detail)); err != nil {
			return err
		}
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := wantError(stopper.Start(ended, refOf(i)), context.Canceled, "start with a context that has ended"); err != nil {
		return err
	}
	if is, err := t.Provider.Get(ctx, refOf(i)); err != nil || is.Status != provider.StatusStopped {
		return errors.Join(err, want(false, "a start whose context had ended made it %q", is.Status))
	}
	for range 2 {
		if err := stopper.Start(ctx, refOf(i)); err != nil {
			return err
		}
		if _, err := t.wantRunning(ctx, t.Other, refOf(i)); err != nil {
			return err
		}
	}
	if err := startedAgain(ctx, t, stopper, i); err != nil {
		return err
	}
	unknown := provider.Ref{Name: t.Prefix + "unknown"}
	return errors.Join(
		wantError(stopper.Stop(ctx, unknown), provider.ErrNotFound, "stop what does not exist"),
		wantError(stopper.Start(ctx, unknown), provider.ErrNotFound, "start what does not exist"),
	)
}

// startedAgain: what was started becomes ready as it did at first; a stop whose context has ended leaves it running; and
// what is stopped can be deleted.
func startedAgain(ctx context.Context, t *trial, stopper provider.Stopper, i provider.Instance) error {
	if err := t.wantReady(ctx, refOf(i), "started again, it"); err != nil {
		return err
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := wantError(stopper.Stop(ended, refOf(i)), context.Canceled, "stop with a context that has ended"); err != nil {
		return err
	}
	if _, err := t.wantRunning(ctx, t.Other, refOf(i)); err != nil {
		return xerrors.Errorf("after a stop whose context had ended: %w", err)
	}
	if err := stopper.Stop(ctx, refOf(i)); err != nil {
		return err
	}
	if err := t.Other.Delete(ctx, refOf(i)); err != nil {
		return xerrors.Errorf("delete what is stopped: %w", err)
	}
	return t.wantGone(ctx, refOf(i))
}

func endedContext(ctx context.Context, t *trial) error {
	_, there, err := t.create(ctx, "there")
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, createErr := t.Provider.Create(ended, t.request("never"))
	_, getErr := t.Provider.Get(ended, refOf(there))
	_, readyErr := t.Provider.Ready(ended, refOf(there))
	_, listErr := t.Provider.List(ended, t.Installation)
	return errors.Join(
		wantError(createErr, context.Canceled, "create with a context that has ended"),
		wantError(getErr, context.Canceled, "get with a context that has ended"),
		wantError(readyErr, context.Canceled, "ask for readiness with a context that has ended"),
		wantError(listErr, context.Canceled, "list with a context that has ended"),
		wantError(t.Provider.Delete(ended, refOf(there)), context.Canceled, "delete with a context that has ended"),
		t.wantNames(ctx, t.mine, "there"),
	)
}

func deleteTwice(ctx context.Context, t *trial) error {
	_, i, err := t.create(ctx, "gone")
	if err != nil {
		return err
	}
	if err := t.Other.Delete(ctx, refOf(i)); err != nil {
		return xerrors.Errorf("delete: %w", err)
	}
	if err := t.Provider.Delete(ctx, refOf(i)); err != nil {
		return xerrors.Errorf("delete again: %w", err)
	}
	return errors.Join(t.wantGone(ctx, refOf(i)), t.wantNames(ctx, t.mine))
}

func deletesAtOnce(ctx context.Context, t *trial) error {
	_, i, err := t.create(ctx, "gone-at-once")
	if err != nil {
		return err
	}
	return errors.Join(each(5, func(int) error { return t.Provider.Delete(ctx, refOf(i)) }), t.wantNames(ctx, t.mine))
}

func deleteUnknown(ctx context.Context, t *trial) error {
	unknown := provider.Ref{Name: t.Prefix + "unknown"}
	err := t.Provider.Delete(ctx, unknown)
	unknown.WorkspaceID = uuid.New()
	return errors.Join(err, t.Provider.Delete(ctx, unknown))
}

func garbage(ctx context.Context, t *trial) error {
	if problems := t.Provider.Validate(t.Spec, t.Parameters); len(problems) > 0 {
		return xerrors.Errorf("a good spec is refused: %s: %s", problems[0].Path, problems[0].Message)
	}
	all := map[string]json.RawMessage{"": json.RawMessage(`["not", "a", "mapping"]`)}
	maps.Copy(all, t.Garbage)
	var errs []error
	for path, spec := range all {
		var paths []string
		for _, p := range t.Provider.Validate(spec, t.Parameters) {
			paths = append(paths, p.Path)
			errs = append(errs, want(p.Message != "", "%s: the problem at %q has no message", spec, p.Path))
		}
		errs = append(errs, want(slices.Contains(paths, path), "%s: problems are seen at %q, not at %q", spec, paths, path))
		req := t.request("garbage")
		req.Spec = spec
		_, err := t.Provider.Create(ctx, req)
		errs = append(errs, want(provider.IsPermanent(err), "%s: got the error %v, want a permanent one", spec, err))
	}
	return errors.Join(append(errs, t.wantNames(ctx, t.mine))...)
}

func badNames(ctx context.Context, t *trial) error {
	var errs []error
	for _, name := range []string{"", ".", "..", "a/b", "../a", "/etc", "A", "a\x00b", ".prewarm", "a b"} {
		req := t.request(name)
		req.Name = name
		_, err := t.Provider.Create(ctx, req)
		errs = append(errs, want(provider.IsPermanent(err), "create %q: got the error %v, want a permanent one", name, err))
	}
	t.made = nil // none of these is a name
	return errors.Join(append(errs, t.wantNames(ctx, t.mine))...)
}
