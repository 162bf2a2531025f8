package conformance

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

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
func resetFenced(ctx context.Context, t *trial) error {
	resetter, _ := provider.As[provider.Resetter](t.Provider)
	req, _, err := t.create(ctx, "used")
	if err != nil {
		return err
	}
	next := req
	next.Tags.Incarnation = 3 // numbers may be left out
	reset, err := resetter.Reset(ctx, next)
	if err != nil {
		return xerrors.Errorf("reset: %w", err)
	}
	again, err := resetter.Reset(ctx, next)
	if err != nil {
		return xerrors.Errorf("reset it again: %w", err)
	}
	late, other, unknown := req, next, t.request("unknown")
	late.Tags.Incarnation = 2
	_, lateErr := resetter.Reset(ctx, late)
	other.Tags.WorkspaceID = uuid.New()
	_, otherErr := resetter.Reset(ctx, other)
	_, unknownErr := resetter.Reset(ctx, unknown)
	_, createErr := t.Provider.Create(ctx, req)
	there, err := t.wantRunning(ctx, t.Other, refOf(reset))
	return errors.Join(err,
		want(reset.Tags == next.Tags, "after a reset its tags are %+v, want %+v", reset.Tags, next.Tags),
		want(again.ProviderID == reset.ProviderID && again.CreatedAt.Equal(reset.CreatedAt), "a repeated reset made another"),
		wantError(lateErr, provider.ErrSuperseded, "reset it as an incarnation before"),
		wantError(otherErr, provider.ErrConflict, "reset it as another workspace"),
		wantError(unknownErr, provider.ErrNotFound, "reset what does not exist"),
		wantError(createErr, provider.ErrConflict, "create it as an incarnation before"),
		want(err != nil || there.Tags == next.Tags, "its tags are %+v in the end, want %+v", there.Tags, next.Tags),
		t.wantNames(ctx, t.mine, "used"),
	)
}
