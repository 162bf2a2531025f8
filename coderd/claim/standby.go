package claim

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
)

// takeStandby claims a workspace that is stopped, and has it started: the answer does not wait for that.
// workspaces.ErrLost if none is left.
func (s *Service) takeStandby(ctx context.Context, req Request, c workspaces.ClaimFor) (Result, error) {
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	w, err := s.Writer.ClaimStandby(writes, c)
	switch {
	case errors.Is(err, workspaces.ErrLost):
		return Result{}, err
	case err != nil:
		s.settleUnknown(err, req, c.ClaimID)
		return Result{}, err
	}
	s.Hints.Wake()
	if req.gone(ctx) != nil {
		return Result{}, s.takeBack(ctx, req, c.ClaimID, w.TemplateID)
	}
	s.Hints.Cause(ctx, w.TemplateID)
	s.Hints.Nudge(w.TemplateID)
	return s.hit(ctx, req, Result{
		ClaimID: c.ClaimID, Outcome: database.ClaimOutcomeHit, Workspace: &w, Standby: true, Starting: true,
	})
}

// withStart says of a claim out of standby how far its start is.
func (s *Service) withStart(ctx context.Context, res Result) (Result, error) {
	res.Standby = true
	start, err := claimdb.New(s.Store).StartOf(ctx, res.Workspace.ID)
	if errors.Is(err, pgx.ErrNoRows) { // it was released meanwhile
		return res, nil
	}
	if err != nil {
		return Result{}, xerrors.Errorf("read start of workspace: %w", err)
	}
	res.Starting, res.Fault = start.Starting, start.Fault
	return res, nil
}
