package agent

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// eventsLeast is the least time between two questions: should a server answer all at once, it is not asked all the time.
const eventsLeast = 500 * time.Millisecond

// followClaims asks for claims and does what each calls for, until ctx ends.
func (a *agent) followClaims(ctx context.Context, m sdk.InstanceMetadata, env []string) {
	var failed backoff
	known := uuid.Nil
	if m.Claim == nil {
		a.forgetClaim(ctx)
	}
	for {
		asked := a.Clock.Now("agent", "events")
		asking, done := a.server.holdLine(ctx)
		events, err := a.server.events(asking, known)
		done()
		wait := max(0, eventsLeast-a.Clock.Since(asked, "agent", "events"))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = failed.next()
			a.trouble(ctx, "wait for claims", failed, err)
		case events.Claim != nil && events.Claim.ClaimID != known:
			failed = backoff{}
			known = events.Claim.ClaimID
			a.claimed(ctx, m, *events.Claim, env)
		default:
			failed = backoff{}
		}
		if !pause(ctx, a.Clock, wait, nil, "events") {
			return
		}
	}
}

// claimed gives the workspace to its owner: files, then on_claim, then word to the server.
func (a *agent) claimed(ctx context.Context, m sdk.InstanceMetadata, claim sdk.InstanceClaim, env []string) {
	if done, ok := a.doneClaim(); ok && done.ClaimID == claim.ClaimID {
		a.noteWritten(claim.ClaimID)
		a.set(done.Status, done.Message, claim.ClaimID)
		return
	}
	end := finished{ClaimID: claim.ClaimID, Status: sdk.AgentClaimReady}
	env, err := a.writeClaim(m, claim, env)
	if err == nil {
		a.noteWritten(claim.ClaimID)
	}
	a.set(sdk.AgentReady, "", claim.ClaimID) // so that the server knows that it is known, however long on_claim takes
	if err == nil && len(m.Agent.OnClaim) > 0 {
		err = a.script(ctx, "on_claim", m.Agent.OnClaim, env)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		end.Status, end.Message = sdk.AgentClaimFailed, err.Error()
	}
	if err := a.finishClaim(end); err != nil {
		a.Log.Warn(ctx, "note that on_claim is done", slog.Error(err))
	}
	a.set(end.Status, end.Message, claim.ClaimID)
}

// noteWritten has reports say that what the claim brought is in the workspace, secrets too.
func (a *agent) noteWritten(claim uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written = claim
}
