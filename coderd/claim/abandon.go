package claim

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// lastWords bounds what is done for a client that is gone.
	lastWords = 5 * time.Second
	// settleEvery and settleTries pace the clean-up of a claim whose outcome is unknown: a minute, while the database
	// may be away.
	settleEvery = 2 * time.Second
	settleTries = 30
)

// abandon is for a client that is gone before it was told. With a key it will ask again, and finds its claim; without
// one nobody ever learns of it, so the claim leaves the line, or is released. It returns why the client is gone.
func (s *Service) abandon(ctx context.Context, req Request, id, templateID uuid.UUID) error {
	cause := ctx.Err()
	if req.Key == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if err := s.giveBack(ctx, req, id); err != nil {
			s.settle(err, req, id)
		}
	}
	s.Nudge(templateID)
	return cause
}

// settle is called when a write of the claim failed. If the connection broke it may have been committed all the same;
// then it is undone in the background. The caller was told of an error, and is not owed the workspace.
func (s *Service) settle(cause error, req Request, id uuid.UUID) {
	if req.Key != "" || !(database.IsConnection(cause) || errors.Is(cause, context.DeadlineExceeded)) {
		return
	}
	go func() {
		for range settleTries {
			timer := s.Clock.NewTimer(settleEvery, "claim", "settle")
			<-timer.C
			ctx, cancel := context.WithTimeout(context.Background(), lastWords)
			err := s.giveBack(ctx, req, id)
			cancel()
			if err == nil {
				return
			}
			s.Log.Warn(ctx, "give back a claim that nobody was told of", slog.F("claim_id", id), slog.Error(err))
		}
	}()
}

// giveBack ends a claim that nobody was told of, in whatever state it is.
func (s *Service) giveBack(ctx context.Context, req Request, id uuid.UUID) error {
	n, err := s.Store.EndWaiting(ctx, database.EndWaitingParams{ID: id, Reason: "the client went away"})
	if err != nil {
		return xerrors.Errorf("leave the line: %w", err)
	}
	if n > 0 {
		return nil
	}
	c, err := s.Store.ClaimByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // it was never committed
	}
	if err != nil {
		return xerrors.Errorf("read claim: %w", err)
	}
	if c.State != database.ClaimStateBound {
		return nil
	}
	moved, err := s.Writer.Release(ctx, workspaces.Actor{
		UserID: workspaces.Prewarm, Source: req.Source, Reason: "the client went away before it was told",
	}, c.WorkspaceID.UUID)
	if err != nil && !errors.Is(err, workspaces.ErrNotClaimed) {
		return err
	}
	s.Nudge(moved.TemplateID)
	return nil
}
