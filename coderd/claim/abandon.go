package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
)

const (
	// lastWords bounds what is done for a client that is gone.
	lastWords = 5 * time.Second
	// A claim whose outcome is unknown is looked for this often, and for longer than any statement of it can run.
	settleEvery = 2 * time.Second
	settleFor   = time.Minute + settleEvery/2 // not at a tick, where either could come first
)

// abandon is for a client that is gone before it was told. With a key it will ask again, and finds its claim; without
// one nobody ever learns of it, so the claim leaves the line, or is released; so does that of a user who may not claim any
// more. It returns why the client is gone.
func (s *Service) abandon(ctx context.Context, req Request, id, templateID uuid.UUID) error {
	return s.abandonAll(ctx, req, []uuid.UUID{id}, templateID)
}

// takeBack is for a client that was gone when its claim was made, so that the claim is worth nothing to it yet: with a key, too, it ends,
// unless another request has found it by that. Such a client may have asked another replica meanwhile, as where this one was frozen,
// and if that was a miss it never asks again. It returns why the client is gone.
func (s *Service) takeBack(ctx context.Context, req Request, id, templateID uuid.UUID) error {
	if !req.mayTakeBack() || errors.Is(context.Cause(ctx), auth.ErrNotAllowed) {
		return s.abandon(ctx, req, id, templateID)
	}
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := s.giveBack(writes, req, id); err != nil {
		s.settle(req, id)
	}
	s.Hints.Nudge(templateID)
	return req.gone(ctx)
}

// errGone is why a claim ends whose client has closed its connection.
var errGone = fmt.Errorf("the client closed its connection: %w", context.Canceled)

// gone is why nobody hears the answer; nil: the client is there, as far as is known.
func (r Request) gone(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Gone != nil && r.Gone() {
		return errGone
	}
	return nil
}

// settle undoes, in the background, a claim whose outcome is unknown because a write of it failed: it may have been
// committed all the same. Its caller was told of an error, and is not owed a workspace, unless it has asked again with its key.
// That the claim is not there is believed only once no statement of before can still commit.
func (s *Service) settle(req Request, id uuid.UUID) {
	if !req.mayTakeBack() {
		return
	}
	s.active.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleFor)
		defer cancel()
		ticker := s.Clock.NewTicker(settleEvery, "claim", "settle")
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.closing:
				return
			case <-ticker.C:
			}
			err := s.giveBack(ctx, req, id)
			if err == nil {
				return
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				s.Log.Warn(ctx, "give back a claim whose client got no answer", slog.F("claim_id", id), slog.Error(err))
			}
		}
	})
}

// settleUnknown settles a claim after an error that leaves open whether its write was committed.
func (s *Service) settleUnknown(cause error, req Request, id uuid.UUID) {
	if database.IsConnection(cause) || errors.Is(cause, context.DeadlineExceeded) {
		s.settle(req, id)
	}
}

// Close waits for the claims under way, whose clients are gone by now, and gives up what could not be settled.
func (s *Service) Close() {
	close(s.closing)
	s.active.Wait()
}

// mayTakeBack says whether a claim of the request may end as nobody was told of it. Claims that are one request and have a key stay.
func (r Request) mayTakeBack() bool { return r.Key == "" || !r.again && r.Count <= 1 }

// giveBack ends a claim that nobody was told of, in whatever state it is. With a key that holds only if none has found it by that.
func (s *Service) giveBack(ctx context.Context, req Request, id uuid.UUID) error {
	n, err := claimdb.New(s.Store).EndWaiting(ctx, claimdb.EndWaitingParams{
		ID: id, Reason: "the client went away", ReasonCode: string(explain.MissClientGone), Unasked: req.Key != "",
	})
	if err != nil {
		return xerrors.Errorf("leave the line: %w", err)
	}
	if n > 0 {
		return nil
	}
	c, err := claimdb.New(s.Store).ClaimByID(ctx, id)
	if err != nil { // not there: not yet, or never
		return xerrors.Errorf("read claim: %w", err)
	}
	if c.State != database.ClaimStateBound {
		return nil
	}
	by := workspaces.Actor{
		UserID: workspaces.Prewarm, Source: req.Source, Reason: "the client went away before the answer",
	}
	if c.Incarnation != nil { // not that of who has it next
		by.Incarnation = *c.Incarnation
	}
	var moved workspaces.Moved
	if req.Key == "" {
		moved, err = s.Writer.Release(ctx, by, c.WorkspaceID.UUID)
	} else {
		moved, err = s.Writer.TakeBack(ctx, by, id, c.WorkspaceID.UUID)
	}
	if errors.Is(err, workspaces.ErrNotClaimed) || errors.Is(err, workspaces.ErrToldOf) { // somebody has released it, or has it
		return nil
	}
	if err != nil {
		return err
	}
	s.Hints.Nudge(moved.TemplateID)
	return nil
}
