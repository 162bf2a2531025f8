package inbox

import (
	"context"
	"slices"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// Match decides whose demand each queued job is, and stores what has changed. It is a function of the rows of jobs and presets,
// so that it may be called at any time: after deliveries were handled, after presets or entities have changed, and now and
// then in case nobody called.
func (s *Service) Match(ctx context.Context) error {
	select {
	case s.matching <- struct{}{}:
		defer func() { <-s.matching }()
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own
	}
	start := s.Clock.Now("inbox", "match")
	var changed, bound []uuid.UUID
	err := s.Store.InTx(ctx, database.TxOptions{Label: "match jobs"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			if err := inboxdb.New(tx).LockForgeJobs(ctx); err != nil {
				return xerrors.Errorf("lock jobs: %w", err)
			}
			if bound, err = bindLate(ctx, tx); err != nil {
				return err
			}
			changed, err = assign(ctx, tx)
			return err
		})
	if err != nil {
		return err //nolint:wrapcheck // InTx says what it was
	}
	s.metrics.match.Observe(s.Clock.Since(start, "inbox", "match").Seconds())
	if len(bound) > 0 {
		s.Hints.Settle()
	}
	s.nudge(ctx, changed)
	return nil
}

// bindLate looks again for the workspaces of jobs whose runner was not known to be one of ours.
func bindLate(ctx context.Context, db database.DBTX) ([]uuid.UUID, error) {
	q := inboxdb.New(db)
	unbound, err := q.UnboundForgeJobs(ctx)
	if err != nil {
		return nil, xerrors.Errorf("find unbound jobs: %w", err)
	}
	if len(unbound) == 0 {
		return nil, nil
	}
	bound, err := q.BindForgeJobs(ctx, unbound)
	if err != nil {
		return nil, xerrors.Errorf("bind jobs to runners: %w", err)
	}
	return bound, nil
}

// assign matches all queued jobs, then those that the forge holds back, which are announced: they take only what room is left.
// It returns the presets whose demand has changed.
func assign(ctx context.Context, db database.DBTX) (changed []uuid.UUID, err error) {
	q := inboxdb.New(db)
	rows, err := q.QueuedForgeJobs(ctx)
	if err != nil {
		return nil, xerrors.Errorf("read queued jobs: %w", err)
	}
	held, err := q.WaitingForgeJobs(ctx)
	if err != nil {
		return nil, xerrors.Errorf("read waiting jobs: %w", err)
	}
	if len(rows) == 0 && len(held) == 0 {
		return nil, nil
	}
	pools, err := poolsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	spread, err := spreading(ctx, db)
	if err != nil {
		return nil, err
	}
	jobs := lists.Of(rows, func(r inboxdb.QueuedForgeJobsRow) queued {
		return queued{
			id: r.ID, organization: r.OrganizationID, entity: r.EntityID, forgeURL: r.ForgeUrl, repository: r.Repository,
			labels: forge.Labels(r.Labels), queuedAt: r.QueuedAt, preset: r.PresetID.UUID, unserved: r.Unserved,
		}
	})
	announced := lists.Of(held, func(r inboxdb.WaitingForgeJobsRow) queued {
		return queued{
			id: r.ID, organization: r.OrganizationID, entity: r.EntityID, forgeURL: r.ForgeUrl, repository: r.Repository,
			labels: forge.Labels(r.Labels), queuedAt: r.QueuedAt, preset: r.PresetID.UUID,
		}
	})
	var p inboxdb.AssignForgeJobsParams
	store := func(a assignment) {
		p.Ids, p.PresetIds, p.Reasons = append(p.Ids, a.job), append(p.PresetIds, a.preset), append(p.Reasons, a.unserved)
	}
	before := byID(jobs)
	demand := match(jobs, pools, spread)
	for _, a := range demand {
		was := before[a.job]
		if was.preset == a.preset && was.unserved == a.unserved {
			continue
		}
		store(a)
		if was.preset != a.preset {
			changed = append(changed, was.preset, a.preset)
		}
	}
	before = byID(announced)
	for _, a := range match(announced, taken(pools, demand), spread) {
		if a.unserved = ""; before[a.job].preset != a.preset {
			store(a)
		}
	}
	if len(p.Ids) == 0 {
		return nil, nil
	}
	if _, err := q.AssignForgeJobs(ctx, p); err != nil {
		return nil, xerrors.Errorf("store whose demand jobs are: %w", err)
	}
	return changed, nil
}

func byID(jobs []queued) map[uuid.UUID]*queued {
	by := make(map[uuid.UUID]*queued, len(jobs))
	for i := range jobs {
		by[jobs[i].id] = &jobs[i]
	}
	return by
}

// taken are the pools with the jobs that were assigned to them.
func taken(pools []pool, assigned []assignment) []pool {
	more := make(map[uuid.UUID]int, len(pools))
	for _, a := range assigned {
		more[a.preset]++
	}
	pools = slices.Clone(pools)
	for i := range pools {
		pools[i].busy += more[pools[i].id]
	}
	return pools
}

func poolsOf(ctx context.Context, db database.DBTX) ([]pool, error) {
	q := inboxdb.New(db)
	presets, err := q.RunnerPresets(ctx)
	if err != nil {
		return nil, xerrors.Errorf("read runner presets: %w", err)
	}
	counts, err := q.BusyRunners(ctx)
	if err != nil {
		return nil, xerrors.Errorf("count jobs at runners: %w", err)
	}
	busy := lists.Keyed(counts, func(c inboxdb.BusyRunnersRow) (uuid.UUID, int) { return c.PresetID.UUID, int(c.Jobs) })
	return lists.Of(presets, func(r inboxdb.RunnerPresetsRow) pool {
		return pool{
			id: r.ID, organization: r.OrganizationID, template: r.TemplateID, entity: r.EntityID, name: r.Name,
			priority: int(r.Priority), labels: forge.Labels(r.Labels), maximum: int(r.Maximum), busy: busy[r.ID],
			scope: forge.Scope(r.Scope), path: r.Path, forgeURL: r.ForgeUrl, off: off(r),
		}
	}), nil
}

// off says why a preset serves nothing.
func off(r inboxdb.RunnerPresetsRow) string {
	switch {
	case r.Stopped && r.StoppedReason != "":
		return "the forge entity " + r.Entity + " is stopped: " + r.StoppedReason
	case r.Stopped:
		return "the forge entity " + r.Entity + " is stopped"
	case r.Deprecated:
		return "its template is deprecated"
	case r.ProviderDeleted:
		return "its provider is deleted"
	}
	return ""
}

func spreading(ctx context.Context, db database.DBTX) (map[uuid.UUID]bool, error) {
	balances, err := inboxdb.New(db).EntityBalances(ctx)
	if err != nil {
		return nil, xerrors.Errorf("read balances: %w", err)
	}
	return lists.Keyed(balances, func(b inboxdb.EntityBalancesRow) (uuid.UUID, bool) { return b.ID, b.Balance == "spread" }), nil
}

// nudge asks for passes over the templates of presets whose demand has changed. Where that fails, the next tick does it.
func (s *Service) nudge(ctx context.Context, presets []uuid.UUID) {
	if len(presets) == 0 {
		return
	}
	templates, err := inboxdb.New(s.Store).TemplatesOfPresets(ctx, presets)
	if err != nil {
		s.Log.Warn(ctx, "find templates to nudge", slog.Error(err))
		return
	}
	if len(templates) > 0 {
		s.Hints.Nudge(templates...)
	}
}
