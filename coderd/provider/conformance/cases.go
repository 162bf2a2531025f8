package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

func createTwice(ctx context.Context, t *trial) {
	req, first := t.create(ctx, "twice")
	second, err := t.Other.Create(ctx, req)
	t.did("create it again", err)
	t.check(
		want(first.ProviderID == second.ProviderID, "created again, its id is %q, before %q", second.ProviderID, first.ProviderID),
		want(second.Tags == req.Tags, "its tags are %+v, want %+v", second.Tags, req.Tags),
		want(first.CreatedAt.Equal(second.CreatedAt), "it was made %s, before %s", second.CreatedAt, first.CreatedAt),
		t.wantNames(ctx, t.mine, "twice"),
	)
}

func createConflict(ctx context.Context, t *trial) {
	_, first := t.create(ctx, "taken")
	other := t.request("taken")
	_, err := t.Provider.Create(ctx, other)
	t.must(wantError(err, provider.ErrConflict, "create another of that name"))
	t.must(want(provider.IsPermanent(err), "a conflict is not a permanent error"))
	// A worker then cleans up after its workspace by name. That must not hit the one that was there.
	t.did("delete the other", t.Provider.Delete(ctx, provider.Ref{Name: other.Name, WorkspaceID: other.Tags.WorkspaceID}))
	there := t.running(ctx, t.Other, refOf(first))
	t.check(want(there.Tags == first.Tags, "its tags are %+v now, before %+v", there.Tags, first.Tags))
}

func get(ctx context.Context, t *trial) {
	req, made := t.create(ctx, "found")
	t.must(want(made.ProviderID != "", "create returned no id"))
	for _, ref := range []provider.Ref{{Name: req.Name}, {ProviderID: made.ProviderID}, refOf(made)} {
		i := t.running(ctx, t.Other, ref)
		if t.Settle > 0 { // addresses may come later
			made.Addresses, made.Environment = i.Addresses, i.Environment
		}
		t.did("get "+ref.Name+ref.ProviderID, errors.Join(
			want(i.Tags == req.Tags, "its tags are %+v, want %+v", i.Tags, req.Tags),
			want(i.Name == req.Name, "its name is %q, want %q", i.Name, req.Name),
			want(i.ProviderID == made.ProviderID, "its id is %q, create said %q", i.ProviderID, made.ProviderID),
			want(reflect.DeepEqual(made.Addresses, i.Addresses), "its addresses are %v, create said %v", i.Addresses,
				made.Addresses),
			want(maps.Equal(made.Environment, i.Environment), "its environment is %v, create said %v", i.Environment,
				made.Environment),
			want(t.Ageless || !i.CreatedAt.IsZero(), "when it was made is not known"),
		))
	}
}

func getUnknown(ctx context.Context, t *trial) {
	t.checkAbsent(ctx, provider.Ref{Name: t.Prefix + "unknown"}, "what does not exist")
}

func anotherWorkspace(ctx context.Context, t *trial) {
	t.create(ctx, "mine")
	other := provider.Ref{Name: t.Prefix + "mine", WorkspaceID: uuid.New()}
	t.checkAbsent(ctx, other, "another's")
	t.check(t.Provider.Delete(ctx, other), t.wantNames(ctx, t.mine, "mine"))
}

func (t *trial) checkAbsent(ctx context.Context, ref provider.Ref, what string) {
	_, err := t.Provider.Get(ctx, ref)
	_, readyErr := t.Provider.Ready(ctx, ref)
	t.check(
		wantError(err, provider.ErrNotFound, "get "+what),
		wantError(readyErr, provider.ErrNotFound, "ask "+what+" whether it is ready"),
	)
}

func list(ctx context.Context, t *trial) {
	t.must(t.wantNames(ctx, t.mine), t.wantNames(ctx, t.theirs))
	t.create(ctx, "one")
	t.create(ctx, "two")
	var theirs []string
	if t.Foreign != nil {
		theirs = []string{"three"}
		t.createOf(ctx, t.theirs, "three")
	}
	t.must(t.wantNames(ctx, t.mine, "one", "two"), t.wantNames(ctx, t.theirs, theirs...))
	// What the listing says of one is what a look-up says, but for its environment.
	t.check(t.settle(ctx, func() error {
		all, err := t.list(ctx, t.mine)
		for _, i := range all {
			alone, getErr := t.Provider.Get(ctx, refOf(i))
			alone.Environment = nil
			err = errors.Join(err, getErr,
				want(reflect.DeepEqual(alone, i), "the listing has %+v, a look-up %+v", i, alone))
		}
		return err
	}))
}

func becomesReady(ctx context.Context, t *trial) {
	_, i := t.create(ctx, "soon")
	t.check(t.wantReady(ctx, refOf(i), "it"))
}

func stopAndStart(ctx context.Context, t *trial) {
	stopper, _ := provider.As[provider.Stopper](t.Provider)
	_, i := t.create(ctx, "stopped")
	t.running(ctx, t.Provider, refOf(i))
	if some, ok := provider.As[provider.StopChecker](t.Provider); ok && some.CheckStop(t.Spec, t.Parameters) != nil {
		for what, err := range map[string]error{"stop": stopper.Stop(ctx, refOf(i)), "start": stopper.Start(ctx, refOf(i))} {
			t.check(want(provider.IsPermanent(err), "the spec is one that cannot be stopped, and %s returned %v", what, err))
		}
		t.running(ctx, t.Provider, refOf(i))
		return
	}
	for range 2 {
		t.must(stopper.Stop(ctx, refOf(i)))
		t.must(t.settle(ctx, func() error {
			is, err := t.Other.Get(ctx, refOf(i))
			return errors.Join(err, want(is.Status == provider.StatusStopped, "stopped, its status is %q", is.Status))
		}))
		state, err := t.Other.Ready(ctx, refOf(i))
		t.must(err, want(!state.Ready && !state.Failed, "stopped, it is said to be ready (%t) or to have failed "+
			"(%t): %s", state.Ready, state.Failed, state.Detail))
	}
	ended, end := context.WithCancel(ctx)
	end()
	t.must(wantError(stopper.Start(ended, refOf(i)), context.Canceled, "start with a context that has ended"))
	is, err := t.Provider.Get(ctx, refOf(i))
	t.must(err, want(is.Status == provider.StatusStopped, "a start whose context had ended made it %q", is.Status))
	for range 2 {
		t.must(stopper.Start(ctx, refOf(i)))
		t.running(ctx, t.Other, refOf(i))
	}
	// What was started becomes ready as it did at first; a stop whose context has ended leaves it running; and what is stopped
	// can be deleted.
	t.must(t.wantReady(ctx, refOf(i), "started again, it"))
	t.must(wantError(stopper.Stop(ended, refOf(i)), context.Canceled, "stop with a context that has ended"))
	t.running(ctx, t.Other, refOf(i))
	t.must(stopper.Stop(ctx, refOf(i)))
	t.did("delete what is stopped", t.Other.Delete(ctx, refOf(i)))
	unknown := provider.Ref{Name: t.Prefix + "unknown"}
	t.check(
		t.wantGone(ctx, refOf(i)),
		wantError(stopper.Stop(ctx, unknown), provider.ErrNotFound, "stop what does not exist"),
		wantError(stopper.Start(ctx, unknown), provider.ErrNotFound, "start what does not exist"),
	)
}

func endedContext(ctx context.Context, t *trial) {
	_, there := t.create(ctx, "there")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, createErr := t.Provider.Create(ended, t.request("never"))
	_, getErr := t.Provider.Get(ended, refOf(there))
	_, readyErr := t.Provider.Ready(ended, refOf(there))
	_, listErr := t.Provider.List(ended, t.Installation)
	t.check(
		wantError(createErr, context.Canceled, "create with a context that has ended"),
		wantError(getErr, context.Canceled, "get with a context that has ended"),
		wantError(readyErr, context.Canceled, "ask for readiness with a context that has ended"),
		wantError(listErr, context.Canceled, "list with a context that has ended"),
		wantError(t.Provider.Delete(ended, refOf(there)), context.Canceled, "delete with a context that has ended"),
		t.wantNames(ctx, t.mine, "there"),
	)
}

func deleteTwice(ctx context.Context, t *trial) {
	_, i := t.create(ctx, "gone")
	t.did("delete", t.Other.Delete(ctx, refOf(i)))
	t.did("delete again", t.Provider.Delete(ctx, refOf(i)))
	t.check(t.wantGone(ctx, refOf(i)), t.wantNames(ctx, t.mine))
}

func deletesAtOnce(ctx context.Context, t *trial) {
	_, i := t.create(ctx, "gone-at-once")
	t.check(each(5, func(int) error { return t.Provider.Delete(ctx, refOf(i)) }), t.wantNames(ctx, t.mine))
}

func deleteUnknown(ctx context.Context, t *trial) {
	unknown := provider.Ref{Name: t.Prefix + "unknown"}
	t.check(t.Provider.Delete(ctx, unknown))
	unknown.WorkspaceID = uuid.New()
	t.check(t.Provider.Delete(ctx, unknown))
}

func garbage(ctx context.Context, t *trial) {
	for _, p := range t.Provider.Validate(t.Spec, t.Parameters) {
		t.must(want(false, "a good spec is refused: %s: %s", p.Path, p.Message))
	}
	all := map[string]json.RawMessage{"": json.RawMessage(`["not", "a", "mapping"]`)}
	maps.Copy(all, t.Garbage)
	for path, spec := range all {
		var paths []string
		for _, p := range t.Provider.Validate(spec, t.Parameters) {
			paths = append(paths, p.Path)
			t.check(want(p.Message != "", "%s: the problem at %q has no message", spec, p.Path))
		}
		t.check(want(slices.Contains(paths, path), "%s: problems are seen at %q, not at %q", spec, paths, path))
		req := t.request("garbage")
		req.Spec = spec
		_, err := t.Provider.Create(ctx, req)
		t.check(want(provider.IsPermanent(err), "%s: got the error %v, want a permanent one", spec, err))
	}
	t.check(t.wantNames(ctx, t.mine))
}

func badNames(ctx context.Context, t *trial) {
	for _, name := range []string{"", ".", "..", "a/b", "../a", "/etc", "A", "a\x00b", ".prewarm", "a b"} {
		req := t.request(name)
		req.Name = name
		_, err := t.Provider.Create(ctx, req)
		t.check(want(provider.IsPermanent(err), "create %q: got the error %v, want a permanent one", name, err))
	}
	t.made = nil // none of these is a name
	t.check(t.wantNames(ctx, t.mine))
}
