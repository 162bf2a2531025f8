package main

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// giveUp is for somebody who interrupts a claim that has a key nobody knows: the same key with no time to wait takes the
// claim out of the line, or finds what it was given meanwhile, which is released. The interrupt stands either way.
func (a *app) giveUp(ctx context.Context, client *sdk.Client, req sdk.ClaimRequest) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.giveUpFor)
	defer cancel()
	req.Mode, req.Wait = "prefer", time.Millisecond.String()
	claim, err := client.Claim(ctx, req)
	if err != nil || claim.WorkspaceID == nil {
		return
	}
	if _, err := client.ReleaseWorkspace(ctx, claim.WorkspaceID.String()); err != nil {
		a.hint("%s was claimed and could not be released: %v", claim.Name, err)
	}
}
