package claim

import (
	"context"
	"fmt"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// lookEvery bounds what a lost notification costs a waiter.
const lookEvery = time.Second

// wait stands in line until the claim is bound, its time is up, or its client is gone.
func (s *Service) wait(ctx context.Context, req Request, id, templateID uuid.UUID) (Result, error) {
	woken, line := s.enter(id, req.PresetID)
	defer s.leave(id, line)
	defer s.metrics.waiting.Dec()
	s.metrics.waiting.Inc()
	s.Hints.Cause(ctx, templateID)
	s.Hints.Nudge(templateID) // only passes create workspaces, and they count who waits

	end := s.Clock.Now().Add(req.Wait)
	look := s.Clock.NewTimer(lookEvery, "claim", "look")
	defer look.Stop()
	for first := true; ; first = false {
		c, err := s.look(ctx, line, id, first)
		switch {
		case err != nil:
			s.Log.Warn(ctx, "look after a waiting claim", slog.F("claim_id", id), slog.Error(err))
		case c.State != database.ClaimStateWaiting:
			return s.deliver(ctx, req, c, templateID)
		}
		look.Reset(min(lookEvery, s.Clock.Until(end)), "claim", "look")
		select { // who was bound is not told that its time is up
		case <-woken:
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return Result{}, s.abandon(ctx, req, id, templateID)
		case <-woken:
		case <-look.C:
			if ctx.Err() == nil && s.Clock.Until(end) <= 0 {
				return s.timeUp(ctx, req, id, templateID)
			}
		}
	}
}

// look serves the line and reads what became of the claim. Like everything that may bind a claim it does not end with
// the client's context: what is bound must be known.
func (s *Service) look(ctx context.Context, l *line, id uuid.UUID, first bool) (database.Claim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := s.serve(ctx, l, first); err != nil {
		return database.Claim{}, err
	}
	return claimdb.New(s.Store).ClaimByID(ctx, id)
}

// deliver answers with a claim that ended its wait, unless nobody is there to be answered.
func (s *Service) deliver(ctx context.Context, req Request, c database.Claim, templateID uuid.UUID) (Result, error) {
	reads, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	res, err := s.answer(reads, c)
	if err == nil && req.gone(ctx) == nil {
		return res, nil
	}
	if cause := s.abandon(ctx, req, c.ID, templateID); cause != nil {
		err = cause
	}
	return Result{}, err
}

// timeUp leaves the line. If the claim was bound in that moment, it has its workspace.
func (s *Service) timeUp(ctx context.Context, req Request, id, templateID uuid.UUID) (Result, error) {
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	why := s.timedOut(writes, req, fmt.Sprintf("no workspace became ready within %s", req.Wait))
	n, err := claimdb.New(s.Store).EndWaiting(writes, claimdb.EndWaitingParams{ID: id, Reason: why.Text, ReasonCode: string(why.Code)})
	if err != nil {
		s.settle(req, id)
		return Result{}, xerrors.Errorf("leave the line: %w", err)
	}
	if n > 0 {
		s.Hints.Nudge(templateID) // what was being built for it may go
		return Result{ClaimID: id, Outcome: database.ClaimOutcomeMiss, Reason: why.Text, ReasonCode: why.Code, Waited: req.Wait}, nil
	}
	c, err := claimdb.New(s.Store).ClaimByID(writes, id)
	if err != nil {
		s.settle(req, id)
		return Result{}, xerrors.Errorf("read claim: %w", err)
	}
	return s.deliver(ctx, req, c, templateID)
}

// timedOut is why a wait ended with nothing: so many words, and what the pool looks like.
func (s *Service) timedOut(ctx context.Context, req Request, text string) explain.Said {
	pool, err := viewsdb.New(s.Store).PoolView(ctx, req.PresetID)
	if err != nil {
		return explain.Said{Code: explain.MissWaitEnded, Text: text}
	}
	why := s.whyMissed(ctx, req, pool)
	why.Text = text + ": " + why.Text
	return why
}

// whyMissed is WhyMissed, and where several were asked for, how many of them are ready.
func (s *Service) whyMissed(ctx context.Context, req Request, p viewsdb.PoolViewRow) explain.Said {
	m := atMiss(p)
	if req.Count > 1 {
		// Only a miss reads this: a claim that finds what it wants must not wait for counts.
		rows, err := viewsdb.New(s.Store).PresetViews(ctx, viewsdb.PresetViewsParams{
			OrganizationID: req.OrganizationID, PresetID: uuid.NullUUID{UUID: req.PresetID, Valid: true},
		})
		if err == nil && len(rows) == 1 {
			m.Asked, m.Ready = req.Count, int(rows[0].Eligible)
		}
	}
	return explain.Miss(m)
}

// WhyMissed says why a claim found nothing warm.
func WhyMissed(p viewsdb.PoolViewRow) explain.Said { return explain.Miss(atMiss(p)) }

func atMiss(p viewsdb.PoolViewRow) explain.PoolAtMiss {
	return explain.PoolAtMiss{
		Gone: p.Gone, Deprecated: p.Deprecated, ProviderDeleted: p.ProviderDeleted, Pool: p.Pool,
		Desired: int(p.Desired), Starting: int(p.Starting),
		Failures: int(p.Failures), Fault: p.LastError,
	}
}
