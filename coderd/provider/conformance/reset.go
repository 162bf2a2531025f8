package conformance

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// canReset also asks whether the provider can do it on this machine.
func canReset(p provider.Provider) bool {
	if i, ok := provider.As[provider.Isolator](p); ok && i.Isolated() != nil {
		return false
	}
	return can[provider.Resetter](p)
}

// resetFenced: a reset makes the next incarnation, repeated it finds that, and one of an incarnation before is refused.
func resetFenced(ctx context.Context, t *trial) {
	resetter, _ := provider.As[provider.Resetter](t.Provider)
	req, _ := t.create(ctx, "used")
	next := req
	next.Tags.Incarnation = 3 // numbers may be left out
	reset, err := resetter.Reset(ctx, next)
	t.did("reset", err)
	again, err := resetter.Reset(ctx, next)
	t.did("reset it again", err)
	late, other, unknown := req, next, t.request("unknown")
	late.Tags.Incarnation = 2
	_, lateErr := resetter.Reset(ctx, late)
	other.Tags.WorkspaceID = uuid.New()
	_, otherErr := resetter.Reset(ctx, other)
	_, unknownErr := resetter.Reset(ctx, unknown)
	_, createErr := t.Provider.Create(ctx, req)
	t.check(
		want(reset.Tags == next.Tags, "after a reset its tags are %+v, want %+v", reset.Tags, next.Tags),
		want(again.ProviderID == reset.ProviderID && again.CreatedAt.Equal(reset.CreatedAt), "a repeated reset made another"),
		wantError(lateErr, provider.ErrSuperseded, "reset it as an incarnation before"),
		wantError(otherErr, provider.ErrConflict, "reset it as another workspace"),
		wantError(unknownErr, provider.ErrNotFound, "reset what does not exist"),
		wantError(createErr, provider.ErrConflict, "create it as an incarnation before"),
		t.wantNames(ctx, t.mine, "used"),
	)
	there := t.running(ctx, t.Other, refOf(reset))
	t.check(want(there.Tags == next.Tags, "its tags are %+v in the end, want %+v", there.Tags, next.Tags))
}
