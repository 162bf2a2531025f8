package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
)

const (
	// readyTries bounds how many workspaces a claim goes through that waits for on_claim.
	readyTries = 3
	// readyEvery is how often it looks: what an agent says is a row, and nobody is told of it.
	readyEvery = 100 * time.Millisecond
)

// ready waits until on_claim has succeeded in the claimed workspace (C14). Where it fails, the workspace is given up, never
// to be used again, and another is claimed; after a few, and when the time is up, it is a miss: who waits for a workspace
// that is ready is given one that is, or none. After an error the claim is settled, as its caller is not owed a workspace.
func (s *Service) ready(ctx context.Context, req Request, res Result) (Result, error) {
	for tried := 1; ; tried++ {
		if res.Workspace == nil {
			res.Replaced = tried - 1
			return res, nil
		}
		told, hook, fault, err := s.awaitHook(ctx, req, res)
		switch {
		case err != nil && ctx.Err() != nil:
			return Result{}, s.abandon(ctx, req, res.ClaimID, res.Workspace.TemplateID)
		case err != nil:
			s.settle(req, res.ClaimID)
			return Result{}, err
		case fault == nil:
			res.Receipt.Told, res.Receipt.Hook, res.Replaced = told, hook, tried-1
			return res, nil
		}
		miss := Result{
			ClaimID: res.ClaimID, Outcome: database.ClaimOutcomeMiss, Replaced: tried, Waited: res.Waited,
			Reason: fmt.Sprintf("%s in workspace %s", fault.why, res.Workspace.Name), ReasonCode: explain.MissHook,
		}
		if fault.kept {
			res.Receipt.Told, res.Receipt.Hook, res.Replaced, res.Fault = told, hook, tried-1, fault.why
			return res, nil
		}
		if fault.released {
			miss.Replaced = tried - 1
			return miss, nil
		}
		if err := s.giveUp(ctx, req, res, fault.why); err != nil {
			s.settle(req, res.ClaimID)
			return Result{}, err
		}
		if fault.late || tried == readyTries {
			return miss, nil
		}
		if res, err = s.claim(ctx, req); err != nil {
			return Result{}, err
		}
		if res.Workspace == nil {
			res.Reason = miss.Reason + ", and then " + res.Reason
		}
	}
}

// fault is why a workspace is not ready for its owner.
type fault struct {
	why      string
	late     bool // it took too long: so it would in another
	released bool // somebody has given it back
	kept     bool // it can be used, and another would be no better: it is not given up
}

// awaitHook waits for on_claim, and before that for the handover where its template says so. fault is nil where both have succeeded, or
// there are none.
func (s *Service) awaitHook(ctx context.Context, req Request, res Result) (told, hook time.Duration, f *fault, err error) {
	end := s.Clock.NewTimer(req.WaitReady, "claim", "ready")
	defer end.Stop()
	look := s.Clock.NewTicker(readyEvery, "claim", "ready")
	defer look.Stop()
	if err := s.HandOver(ctx, res.Workspace.ID); err != nil { // so that there is a job to wait for
		return 0, 0, nil, xerrors.Errorf("begin handover: %w", err)
	}
	for {
		handover, refused := false, (*fault)(nil)
		row, err := claimdb.New(s.Store).ClaimHook(ctx, res.ClaimID)
		switch database.JobState(row.Handover) {
		case database.JobStatePending, database.JobStateRunning:
			handover = true
		case database.JobStateFailed:
			refused = &fault{why: row.Fault, kept: true}
		default:
		}
		switch {
		case database.NoRows(err):
			return 0, 0, &fault{why: "the claim was released before on_claim had ended", released: true}, nil
		case err != nil && ctx.Err() != nil:
			return 0, 0, nil, ctx.Err()
		case err != nil:
			return 0, 0, nil, xerrors.Errorf("look after on_claim: %w", err)
		case row.Seen && row.Status == database.AgentStatusClaimFailed:
			return 0, 0, &fault{why: "on_claim failed (" + row.Message + ")"}, nil
		case handover:
		case !row.HasAgent:
			res.Workspace.Addresses, res.Workspace.Environment = row.Addresses, row.Environment
			return 0, 0, refused, nil
		case row.Seen && row.Status == database.AgentStatusClaimReady:
			res.Workspace.Addresses, res.Workspace.Environment = row.Addresses, row.Environment
			return milliseconds(row.ToldMs), milliseconds(row.HookMs), refused, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, nil, ctx.Err()
		case <-end.C:
			if handover {
				return 0, 0, &fault{why: fmt.Sprintf("its apply for its owner had not ended after %s", req.WaitReady), kept: true}, nil
			}
			return 0, 0, &fault{why: fmt.Sprintf("on_claim had not ended after %s", req.WaitReady), late: true}, nil
		case <-look.C:
		}
	}
}

// giveUp deletes a workspace that is of no use to its owner, and frees the key for the next.
func (s *Service) giveUp(ctx context.Context, req Request, res Result, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	by := workspaces.Actor{
		UserID: req.UserID, Source: req.Source, Reason: why, Incarnation: res.Workspace.Incarnation,
	}
	moved, err := s.Writer.Delete(ctx, by, res.Workspace.ID, false)
	if err != nil && !errors.Is(err, workspaces.ErrGone) && !errors.Is(err, workspaces.ErrLost) {
		return xerrors.Errorf("give up workspace: %w", err)
	}
	if moved.TemplateID != uuid.Nil {
		s.Hints.Nudge(moved.TemplateID)
	}
	if err := claimdb.New(s.Store).FreeKey(ctx, res.ClaimID); err != nil {
		return xerrors.Errorf("free key: %w", err)
	}
	return nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
