package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// startEvery is how often a workspace that starts for its claim is looked at.
const startEvery = 200 * time.Millisecond

// awaitStart waits until what was claimed out of standby can be used, for at most so long; then the claim still says that it
// is starting. A start that failed is an error: the workspace stays claimed, for whoever wants to look at it.
func (a *app) awaitStart(ctx context.Context, client *sdk.Client, claim *sdk.Claim, most time.Duration) error {
	if claim.Starting && most > 0 {
		bounded, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		err := a.poll(bounded, startEvery, func() (started bool, err error) {
			w, err := client.Workspace(bounded, claim.Name)
			switch {
			case err != nil:
				return false, err
			case w.State != "claimed" || w.ClaimID == nil || *w.ClaimID != claim.ClaimID:
				return false, xerrors.Errorf("workspace %s is no longer of this claim: it is %s", claim.Name, w.State)
			case w.Starting:
				return false, nil
			}
			claim.Starting, claim.Fault = false, w.Fault
			claim.Addresses, claim.Environment = w.Addresses, w.Environment
			return true, nil
		}, "claim", "start")
		switch {
		case err == nil:
		case bounded.Err() != nil && ctx.Err() == nil: // it is told as it is
		default:
			return xerrors.Errorf("wait for the start of workspace %s: %w", claim.Name, err)
		}
	}
	if claim.Fault != "" && !claim.Standby {
		return xerrors.Errorf("workspace %s is claimed and can be used, but: %s. Try again with: prewarm workspace retry %s. Or give it back "+
			"with: prewarm workspace release %s", claim.Name, printable.Headline(claim.Fault), claim.Name, claim.Name)
	}
	if claim.Fault != "" {
		return xerrors.Errorf("workspace %s is claimed, but could not be started: %s (give it back with: prewarm workspace "+
			"release %s)", claim.Name, printable.Headline(claim.Fault), claim.Name)
	}
	return nil
}

// startedOrReleased is awaitStart for a claim that is of use only when it runs: if it does not, it is given back.
func (a *app) startedOrReleased(
	ctx context.Context, client *sdk.Client, claim *sdk.Claim, most time.Duration, keep bool,
) error {
	err := a.awaitStart(ctx, client, claim, most)
	if err == nil && claim.Starting {
		err = xerrors.Errorf("workspace %s did not start within %s: wait longer with --start-wait", claim.Name, most)
	}
	if err == nil || keep {
		return err
	}
	if releaseErr := giveBack(ctx, client, claim.Name); releaseErr != nil {
		return errors.Join(err, xerrors.Errorf("release workspace %s: %w", claim.Name, releaseErr))
	}
	return err
}
