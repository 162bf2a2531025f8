package claim

import (
	"context"
	"errors"
	"fmt"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// errShort rolls a transaction back in which too few workspaces were ready.
var errShort = errors.New("too few workspaces are ready")

// claimTogether claims as many workspaces as there are ids, or none, in one transaction: within the quota, if there is
// one, their rows are written, and bound if enough are ready. Else they stand in line if they may, all of them, or are a
// miss. It is the way of several claims at once, and of any claim that a quota holds for.
func (s *Service) claimTogether(
	ctx context.Context, req Request, ids []uuid.UUID, pool viewsdb.PoolViewRow,
) (Result, error) {
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	last := req.Mode == database.ClaimModeBypass // it picks nothing
	bound, err := s.insertTogether(writes, req, ids, pool.Metered, last)
	if errors.Is(err, errShort) && !last {
		bound, err = s.insertTogether(writes, req, ids, pool.Metered, true)
	}
	var quota *QuotaExceeded
	switch {
	case err == nil && len(bound) > 0:
		s.Writer.Told(bound)
		s.Hints.Cause(ctx, pool.TemplateID)
		s.Hints.Refill(pool.TemplateID)
		if len(ids) > 1 {
			return s.deliverTogether(ctx, req, ids, pool.TemplateID)
		}
		c, err := claimdb.New(s.Store).ClaimByID(writes, ids[0])
		if err != nil {
			s.settleAll(req, ids)
			return Result{}, xerrors.Errorf("read claim: %w", err)
		}
		return s.deliver(ctx, req, c, pool.TemplateID)
	case err == nil && len(ids) > 1:
		return s.waitTogether(ctx, req, ids, pool.TemplateID)
	case err == nil:
		return s.wait(ctx, req, ids[0], pool.TemplateID)
	case errors.Is(err, errShort):
		return s.miss(ctx, req, ids[0], pool)
	case errors.As(err, &quota) && req.Key != "": // what was given before is not counted again
		if res, err := s.resume(ctx, req); !errors.Is(err, pgx.ErrNoRows) {
			return res, err
		}
		return Result{}, quota
	}
	if database.IsConnection(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, database.ErrCommitUnknown) {
		s.settleAll(req, ids)
	}
	return Result{}, err
}

// insertTogether is the transaction of claimTogether. Unless it is the last, it passes over workspaces that others are at,
// and is errShort if too few are left. The last is another transaction, since it waits for them, and those that this one has
// locked already are out of the order in which all wait.
func (s *Service) insertTogether(
	ctx context.Context, req Request, ids []uuid.UUID, metered, last bool,
) (bound []workspaces.Bound, err error) {
	opts := database.TxOptions{Label: "claim together"}
	err = s.Store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		if metered {
			if err := withinQuota(ctx, tx, req, len(ids)); err != nil {
				return err
			}
		}
		if err := s.insertWaiting(ctx, tx, req, ids); err != nil {
			return err
		}
		bound = nil
		if req.Mode != database.ClaimModeBypass {
			var err error
			bound, err = s.Writer.BindTogether(ctx, tx, workspaces.Together{
				ClaimIDs: ids, PresetID: req.PresetID, UserID: req.UserID, Source: req.Source, AtOnce: true, Last: last,
			})
			if err != nil {
				return err
			}
		}
		if len(bound) == 0 && !(last && req.mayWait()) {
			return errShort
		}
		return nil
	})
	return bound, err
}

// waitTogether is wait for claims that are one request. They do not stand in the line of the others, who would wait for
// them: they are bound when enough are ready at once. Passes build for them as for everybody who waits.
func (s *Service) waitTogether(ctx context.Context, req Request, ids []uuid.UUID, templateID uuid.UUID) (Result, error) {
	defer s.metrics.waiting.Dec()
	s.metrics.waiting.Inc()
	s.Hints.Cause(ctx, templateID)
	s.Hints.Nudge(templateID)

	end := s.Clock.Now().Add(req.Wait)
	look := s.Clock.NewTimer(lookEvery, "claim", "look")
	defer look.Stop()
	for {
		done, err := s.lookTogether(ctx, req, ids)
		switch {
		case err != nil:
			s.Log.Warn(ctx, "look after claims that wait together", slog.F("claim_id", ids[0]), slog.Error(err))
		case done:
			return s.deliverTogether(ctx, req, ids, templateID)
		}
		look.Reset(min(lookEvery, s.Clock.Until(end)), "claim", "look")
		select {
		case <-ctx.Done():
		case <-look.C:
		}
		switch {
		case ctx.Err() != nil:
			return Result{}, s.abandonAll(ctx, req, ids, templateID)
		case s.Clock.Until(end) <= 0:
			return s.timeUpTogether(ctx, req, ids, templateID)
		}
	}
}

// lookTogether binds the claims if it can, and says whether none of them waits any more.
func (s *Service) lookTogether(ctx context.Context, req Request, ids []uuid.UUID) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var bound []workspaces.Bound
	var waiting int
	opts := database.TxOptions{Label: "bind together"}
	err := s.Store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := claimdb.New(tx).LockWaiting(ctx, ids)
		waiting = len(rows)
		if err != nil || waiting == 0 {
			return err
		}
		t := workspaces.Together{PresetID: req.PresetID, UserID: req.UserID, Source: req.Source}
		for _, row := range rows {
			t.ClaimIDs = append(t.ClaimIDs, row.ID)
			if req.cold() {
				t.Fresh = row.CreatedAt
			}
		}
		bound, err = s.Writer.BindTogether(ctx, tx, t)
		return err
	})
	if err != nil {
		return false, err
	}
	s.Writer.Told(bound)
	return waiting == len(bound), nil
}

// timeUpTogether leaves the line. If all were bound in that moment, they have their workspaces; what only some have is
// given back.
func (s *Service) timeUpTogether(ctx context.Context, req Request, ids []uuid.UUID, templateID uuid.UUID) (Result, error) {
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	why := s.timedOut(writes, req, fmt.Sprintf("no %d workspaces were ready at once within %s", len(ids), req.Wait))
	n, err := claimdb.New(s.Store).EndWaitingTogether(writes, claimdb.EndWaitingTogetherParams{
		Ids: ids, Reason: why.Text, ReasonCode: string(why.Code),
	})
	if err != nil {
		s.settleAll(req, ids)
		return Result{}, xerrors.Errorf("leave the line: %w", err)
	}
	if n == 0 {
		return s.deliverTogether(ctx, req, ids, templateID)
	}
	s.giveBackAll(writes, req, ids)
	s.Hints.Nudge(templateID)
	return Result{ClaimID: ids[0], Outcome: database.ClaimOutcomeMiss, Reason: why.Text, ReasonCode: why.Code, Waited: req.Wait}, nil
}

// deliverTogether answers with claims that ended their wait, unless nobody is there to be answered.
func (s *Service) deliverTogether(
	ctx context.Context, req Request, ids []uuid.UUID, templateID uuid.UUID,
) (Result, error) {
	reads, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	res, err := s.answerTogether(reads, ids[0])
	if err == nil && req.gone(ctx) == nil {
		s.Hints.Nudge(templateID)
		return res, nil
	}
	if cause := s.abandonAll(ctx, req, ids, templateID); cause != nil {
		err = cause
	}
	return Result{}, err
}

// answerTogether is the result of claims that are one request and no longer wait: a miss if any of them is one.
func (s *Service) answerTogether(ctx context.Context, group uuid.UUID) (Result, error) {
	claims, err := claimdb.New(s.Store).ClaimsTogether(ctx, uuid.NullUUID{UUID: group, Valid: true})
	if err != nil {
		return Result{}, xerrors.Errorf("read claims: %w", err)
	}
	var all Result
	for i, c := range claims {
		res, err := s.answerOne(ctx, c)
		if err != nil {
			return Result{}, err
		}
		if res.Workspace == nil {
			res.ClaimID = group
			return res, nil
		}
		if i == 0 {
			all = res
		}
		if until := res.LeaseUntil; until != nil && (all.LeaseUntil == nil || until.Before(*all.LeaseUntil)) {
			all.LeaseUntil = until
		}
		all.Together = append(all.Together, Given{ClaimID: c.ID, Workspace: *res.Workspace, LeaseUntil: res.LeaseUntil})
	}
	return all, nil
}

// idsTogether are the claims that the first of them was made with.
func (s *Service) idsTogether(ctx context.Context, req Request, first database.Claim) ([]uuid.UUID, error) {
	claims, err := claimdb.New(s.Store).ClaimsTogether(ctx, first.GroupID)
	if err != nil {
		return nil, xerrors.Errorf("read claims: %w", err)
	}
	if len(claims) != req.Count {
		return nil, ErrCountChanged
	}
	return lists.Of(claims, func(c claimdb.Claim) uuid.UUID { return c.ID }), nil
}

// abandonAll is abandon for claims that are one request.
func (s *Service) abandonAll(ctx context.Context, req Request, ids []uuid.UUID, templateID uuid.UUID) error {
	cause := req.gone(ctx)
	if errors.Is(cause, auth.ErrNotAllowed) {
		req.Key = ""
	}
	if req.Key == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		s.giveBackAll(ctx, req, ids)
	}
	s.Hints.Nudge(templateID)
	return cause
}

// giveBackAll ends claims in whatever state they are, also those with a key: the client gets no workspace for an answer.
// What could not be done at once is done in the background.
func (s *Service) giveBackAll(ctx context.Context, req Request, ids []uuid.UUID) {
	req.Key = ""
	for _, id := range ids {
		if err := s.giveBack(ctx, req, id); err != nil {
			s.settle(req, id)
		}
	}
}

func (s *Service) settleAll(req Request, ids []uuid.UUID) {
	for _, id := range ids {
		s.settle(req, id)
	}
}
