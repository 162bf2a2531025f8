package inventory

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Result is what one inventory came to.
type Result struct {
	Held    bool            // another replica is at it, or has it been since: nothing was done
	Counts  map[Verdict]int // nil: the provider gave no complete answer
	Entries []Entry         // but for those that are ok, of which a large fleet has many
	Breaker Breaker
	Done    int // discrepancies that something was done about

	resources, live int  // listed; entries of workspaces that are not deleted
	entries, amiss  int  // of all
	asked           bool // for another, while it was made
}

// add is told each entry of a comparison.
func (r *Result) add(e Entry) {
	r.Counts[e.Verdict]++
	r.entries++
	if e.Verdict.Amiss() {
		r.amiss++
	}
	if e.Workspace != nil && e.Workspace.State != database.WorkspaceStateDeleted {
		r.live++
	}
	if e.Verdict != OK || e.again() {
		r.Entries = append(r.Entries, e)
	}
}

var errTooLong = xerrors.Errorf("inventory not complete after %s", longest)

// leased is the right to one inventory.
type leased struct {
	provider string
	site     string
	attempt  int64
	beganAt  time.Time // the database's clock
}

// Pass makes an inventory of one provider now, whether it is due or not, and acts on it.
func (s *Service) Pass(ctx context.Context, name string) (Result, error) {
	p, site, err := s.find(name)
	if err != nil {
		return Result{}, err
	}
	return s.pass(ctx, name, p, site, true)
}

func (s *Service) pass(ctx context.Context, name string, p provider.Provider, site string, atOnce bool) (Result, error) {
	start := s.Clock.Now("inventory", "lease")
	rows, err := inventorydb.New(s.Store).LeaseInventory(ctx, inventorydb.LeaseInventoryParams{
		Provider: name, Site: site, Replica: s.Replica, LeaseS: leaseFor.Seconds(), AtOnce: atOnce,
	})
	if err != nil {
		return Result{}, xerrors.Errorf("lease the inventory: %w", err)
	}
	if len(rows) == 0 {
		return Result{Held: true}, nil
	}
	l := leased{name, site, rows[0].Attempt, rows[0].BeganAt}
	ctx = s.held.Hold(ctx, place{name, site}, int32(l.attempt), start)
	defer s.held.Drop(place{name, site}, int32(l.attempt))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer s.Clock.AfterFunc(longest, func() { end(errTooLong) }, "inventory", "longest").Stop()
	res, again, err := s.make(ctx, l, p)
	outcome := "complete"
	switch {
	case err != nil:
		outcome = "failed"
	case res.Counts == nil:
		outcome = "incomplete"
	}
	if !res.Held && ctx.Err() == nil {
		s.metrics.inventories.WithLabelValues(name, outcome).Inc()
		s.metrics.seconds.WithLabelValues(name).Observe(s.Clock.Since(start, "inventory", "pass").Seconds())
	}
	// Also when the replica stops: another need not wait for the lease to end.
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), every)
	defer cancelLast()
	asked, releaseErr := inventorydb.New(s.Store).ReleaseInventory(last, inventorydb.ReleaseInventoryParams{
		Provider: name, Site: site, Attempt: l.attempt, BeganAt: l.beganAt, Soon: again, SoonS: s.Soon.Seconds(),
	})
	if database.NoRows(releaseErr) {
		releaseErr = nil // it is another's by now
	}
	if err == nil && releaseErr != nil {
		err = xerrors.Errorf("release the inventory: %w", releaseErr)
	}
	res.asked = asked
	return res, err
}

// make is the inventory itself. again says that another look is wanted soon.
func (s *Service) make(ctx context.Context, l leased, p provider.Provider) (res Result, again bool, err error) {
	settings, err := inventorydb.New(s.Store).InventorySettings(ctx, l.provider)
	if err != nil {
		return res, true, xerrors.Errorf("read settings of provider: %w", err)
	}
	res.Counts = map[Verdict]int{}
	_, marks := provider.As[provider.Marker](p)
	var unmarked []uuid.UUID
	res.resources, err = s.compare(ctx, l.provider, p, l.site, l.beganAt, func(e Entry) {
		res.add(e)
		if marks && e.unmarked() {
			unmarked = append(unmarked, e.Workspace.ID)
		}
	})
	if ctx.Err() != nil {
		return res, true, context.Cause(ctx)
	}
	var incomplete *listingError
	if err != nil && !errors.As(err, &incomplete) {
		return res, true, err
	}
	if incomplete != nil {
		res.Counts = nil
	}
	said, was, err := s.record(ctx, l, settings, &res, incomplete)
	if err != nil {
		return res, true, err
	}
	if res.Held {
		return res, false, nil
	}
	s.tellBreaker(ctx, l.provider, l.site, was, res.Breaker)
	open := res.Breaker.Open()
	if incomplete == nil {
		s.Claimed(unmarked...)
		settled := true
		for _, e := range res.Entries {
			if e.again() {
				s.seenAgain(ctx, l, e)
			}
			if e.Verdict.kept() {
				done, final := s.act(ctx, l, p, e, said[key{e.Subject(), string(e.Verdict)}], open, settings.Confirmed)
				if done {
					res.Done++
				}
				settled = settled && final
			} else if e.Verdict == Going && e.Workspace != nil && e.Workspace.State == database.WorkspaceStateDeleted {
				settled = false
			}
		}
		again = !settled
	}
	return res, again || open, nil
}

// listingError is that the provider gave no complete answer.
type listingError struct{ err error }

func (e *listingError) Error() string { return e.err.Error() }
func (e *listingError) Unwrap() error { return e.err }

// compare asks both sides, under one deadline, and changes nothing. tell gets the entries, which count only if there is no
// error; one of the provider is a *listingError. resources is how many were listed.
func (s *Service) compare(
	ctx context.Context, name string, p provider.Provider, site string, beganAt time.Time, tell func(Entry),
) (resources int, err error) {
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	sides := Sides{Provider: name, Site: site, Installation: s.Installation, ListedAt: beganAt, Grace: s.Grace, Drift: provider.DriftEvery(p) > 0}
	sides.Resources, err = p.List(ctx, s.Installation)
	if sides.Unheard, err = provider.Partial(err); err != nil {
		return 0, &listingError{err}
	}
	times, err := inventorydb.New(s.Store).TimesAtWork(ctx)
	if err != nil {
		return 0, xerrors.Errorf("read times at work: %w", err)
	}
	sides.AtWork = lists.Of(times, func(t inventorydb.TimesAtWork) Span { return Span{t.BeganAt, t.SeenAt} })
	ids := lists.Of(sides.Resources, func(r provider.Instance) uuid.UUID { return r.Tags.WorkspaceID })
	c := Compare(sides, tell)
	err = inventorydb.New(s.Store).EachInventoryRow(ctx, inventorydb.InventoryRowsParams{Provider: name, Site: site, Ids: ids},
		func(row Workspace) { c.Workspace(&row) })
	if err != nil {
		return 0, xerrors.Errorf("read workspaces: %w", err)
	}
	c.End()
	return len(sides.Resources), nil
}

func limitsOf(settings inventorydb.InventorySettingsRow) Limits {
	return Limits{
		Count: int(settings.BreakerCount), Percent: int(settings.BreakerPercent), Errors: int(settings.BreakerErrors),
		Clean: int(settings.BreakerClean),
	}
}

// key tells findings apart.
type key struct{ subject, verdict string }

// record writes what was found and what becomes of the breaker, if the lease still holds. It returns how often in a row
// each finding was made, and the breaker as it was.
func (s *Service) record(
	ctx context.Context, l leased, settings inventorydb.InventorySettingsRow, res *Result, incomplete *listingError,
) (said map[key]inventorydb.SaveFindingsRow, was Breaker, err error) {
	err = s.Store.InTx(ctx, database.TxOptions{Label: "record inventory"},
		func(ctx context.Context, tx pgx.Tx) error {
			q := inventorydb.New(tx)
			said = map[key]inventorydb.SaveFindingsRow{}
			row, err := q.LockInventory(ctx, inventorydb.LockInventoryParams{Provider: l.provider, Site: l.site, Attempt: l.attempt})
			if database.NoRows(err) {
				res.Held = true
				return nil
			}
			if err != nil {
				return xerrors.Errorf("look for the lease: %w", err)
			}
			was = Breaker{Reason: row.Reason, Clean: int(row.Clean), Calls: row.ByCalls}
			seen := Seen{Entries: res.entries}
			if incomplete != nil {
				seen.Incomplete = brief(incomplete.Error())
			} else if said, seen.New, err = save(ctx, tx, l, res.Entries); err != nil {
				return err
			}
			res.Breaker = was.Next(limitsOf(settings), seen)
			if err := store(ctx, tx, l, *res, incomplete); err != nil {
				return err
			}
			return s.recordBreaker(ctx, tx, l.provider, was, res.Breaker)
		})
	return said, was, err
}

// save replaces the findings, and counts those that are new.
func save(ctx context.Context, db database.DBTX, l leased, entries []Entry) (map[key]inventorydb.SaveFindingsRow, int, error) {
	arg := inventorydb.SaveFindingsParams{Provider: l.provider, Site: l.site, BeganAt: l.beganAt}
	taken := map[key]bool{}
	for _, e := range entries {
		k := key{e.Subject(), string(e.Verdict)}
		if !e.Verdict.kept() || taken[k] {
			continue
		}
		taken[k] = true
		name, id := "", ""
		if e.Resource != nil {
			name, id = e.Resource.Name, e.Resource.ProviderID
		}
		arg.Subjects = append(arg.Subjects, database.Text(k.subject))
		arg.Verdicts = append(arg.Verdicts, k.verdict)
		arg.WorkspaceIds = append(arg.WorkspaceIds, e.WorkspaceID())
		arg.Resources = append(arg.Resources, database.Text(name))
		arg.ProviderIds = append(arg.ProviderIds, database.Text(id))
		arg.Details = append(arg.Details, brief(e.Detail))
	}
	rows, err := inventorydb.New(db).SaveFindings(ctx, arg)
	if err != nil {
		return nil, 0, xerrors.Errorf("save findings: %w", err)
	}
	said, fresh := make(map[key]inventorydb.SaveFindingsRow, len(rows)), 0
	for _, row := range rows {
		said[key{row.Subject, row.Verdict}] = row
		if row.Seen == 1 && Verdict(row.Verdict).alarms() {
			fresh++
		}
	}
	return said, fresh, nil
}

func store(ctx context.Context, db database.DBTX, l leased, res Result, incomplete *listingError) error {
	q := inventorydb.New(db)
	var err error
	if incomplete != nil {
		err = q.StoreIncomplete(ctx, inventorydb.StoreIncompleteParams{
			Provider: l.provider, Site: l.site, BeganAt: l.beganAt, Error: brief(incomplete.Error()),
			IsOpen: res.Breaker.Open(), Reason: res.Breaker.Reason, Clean: int32(res.Breaker.Clean),
			ByCalls: res.Breaker.Calls,
		})
	} else {
		err = q.StoreInventory(ctx, inventorydb.StoreInventoryParams{
			Provider: l.provider, Site: l.site, BeganAt: &l.beganAt, Resources: int32(res.resources),
			Workspaces: int32(res.live), Discrepancies: int32(res.amiss), IsEmpty: res.entries == 0,
			IsOpen: res.Breaker.Open(), Reason: res.Breaker.Reason, Clean: int32(res.Breaker.Clean),
			ByCalls: res.Breaker.Calls,
		})
	}
	if err != nil {
		return xerrors.Errorf("store inventory: %w", err)
	}
	return nil
}

// recordBreaker leaves a trace of a breaker that opened or closed, which is also the event for pages that watch.
func (s *Service) recordBreaker(ctx context.Context, db database.DBTX, provider string, was, is Breaker) error {
	if was.Open() == is.Open() {
		return nil
	}
	action, reason := "provider.breaker-open", is.Reason
	if !is.Open() {
		action, reason = "provider.breaker-close", "its inventories are clean again"
		if was.Calls {
			reason = "its calls succeed again"
		}
	}
	err := inventorydb.New(db).RecordProviderAct(ctx, inventorydb.RecordProviderActParams{
		ActorID: workspaces.Prewarm, Action: action, Provider: provider, Reason: reason, Source: s.Replica,
	})
	if err != nil {
		return xerrors.Errorf("record breaker: %w", err)
	}
	return nil
}

// tellBreaker has passes plan anew, and workers look for jobs again.
func (s *Service) tellBreaker(ctx context.Context, provider, site string, was, is Breaker) {
	if was.Open() == is.Open() {
		return
	}
	fields := []any{slog.F("provider", provider), slog.F("site", site)}
	if is.Open() {
		s.Log.Warn(ctx, "the breaker opened", append(fields, slog.F("why", is.Reason), slog.F("deletes", is.Calls))...)
	} else {
		s.Log.Info(ctx, "the breaker closed", fields...)
	}
	affected, err := viewsdb.New(s.Store).TemplatesInScope(ctx, viewsdb.TemplatesInScopeParams{
		Scope: database.PauseScopeProvider, Target: provider,
	})
	if err != nil {
		s.Log.Warn(ctx, "find templates of provider", append(fields, slog.Error(err))...)
	}
	s.Hints.Nudge(affected...)
	s.Hints.Wake()
}

// brief is what is stored and shown of an error.
func brief(text string) string {
	return database.TextAtMost(printable.Headline(text), 300)
}
