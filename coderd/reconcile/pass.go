package reconcile

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// passDeadline bounds a pass from this side; the transaction's own timeouts bound it from the server's.
const passDeadline = 30 * time.Second

// errBusy: another replica is at a pass.
var errBusy = errors.New("another replica holds the pass's lock")

// Result is what one pass did.
type Result struct {
	Seq     int64
	Full    bool
	BeganAt time.Time // the database's clock
	Presets int
	Created int
	Intents int
	Moves   int // stops and starts between the tiers
	Changed int // presets whose status was written
	Reruns  int
	// Errors are by preset: each was reported on its preset and stopped no other.
	Errors    map[uuid.UUID]error
	Decisions []Decision
	// RetryAt says when a template's plan changes by time alone.
	RetryAt map[uuid.UUID]time.Time
	// Again are templates that need another pass at once: a chunk held them back, or a headroom that is spent and may be more
	// by now.
	Again []uuid.UUID
}

// Pass runs one pass over everything now, beside whatever Run does: for measurements. It fails if another replica is at
// one.
func (r *Reconciler) Pass(ctx context.Context) (Result, error) { return r.pass(ctx, nil) }

// pass runs one pass: over everything if templates is nil, else over these. errBusy if the lock is held.
func (r *Reconciler) pass(ctx context.Context, templates []uuid.UUID) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.deadline)
	defer cancel()
	var res Result
	runs := 0
	opts := database.TxOptions{Label: "pass", Isolation: pgx.RepeatableRead}
	err := r.Store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		var err error
		res, err = r.passInTx(ctx, tx, templates)
		return err
	})
	res.Reruns = max(0, runs-1)
	return res, err
}

func (r *Reconciler) passInTx(ctx context.Context, tx pgx.Tx, templates []uuid.UUID) (Result, error) {
	q := reconciledb.New(tx)
	if err := q.SetPassTimeouts(ctx); err != nil {
		return Result{}, xerrors.Errorf("set timeouts: %w", err)
	}
	locked, err := q.TryPassLock(ctx)
	if err != nil {
		return Result{}, xerrors.Errorf("take lock: %w", err)
	}
	if !locked {
		return Result{}, errBusy
	}
	// The statement above took its snapshot before it had the lock. If another pass committed in between, this UPDATE
	// fails with 40001 and the pass runs again on what that one wrote.
	fence, err := q.AdvanceFence(ctx, reconciledb.AdvanceFenceParams{
		Holder: r.Replica, IsFull: templates == nil, OverdueS: (r.Tick + r.Tick/2).Seconds(),
	})
	if err != nil {
		return Result{}, xerrors.Errorf("advance fence: %w", err)
	}
	if fence.IsFull {
		templates = nil
	}
	if err := tracing.Carry(ctx, tx); err != nil {
		return Result{}, err
	}
	if templates != nil {
		heldBack, err := q.SnapshotHeldBack(ctx, templates)
		if err != nil {
			return Result{}, xerrors.Errorf("look for templates that a maximum holds back: %w", err)
		}
		templates = append(slices.Clone(templates), heldBack...)
	}
	snap, err := r.snapshot(ctx, tx, fence.BeganAt, templates)
	if err != nil {
		return Result{}, err
	}
	plans, errs := plan(snap)
	left := prebuilds.Clamp(plans, snap.Providers)

	res := Result{
		Seq: fence.Seq, Full: fence.IsFull, BeganAt: fence.BeganAt, Presets: len(snap.Presets), Errors: errs,
		RetryAt: map[uuid.UUID]time.Time{},
	}
	if err := r.apply(ctx, tx, snap, plans, &res); err != nil {
		return Result{}, err
	}
	if res.Decisions, err = decisions(ctx, tx, snap, plans); err != nil {
		return Result{}, err
	}
	if err := r.storeHeadroom(ctx, tx, left); err != nil {
		return Result{}, err
	}
	if err := storeCreateRates(ctx, tx, snap.Providers, left); err != nil {
		return Result{}, err
	}
	if !fence.IsFull {
		if err := q.MarkTemplatePasses(ctx, templates); err != nil {
			return Result{}, xerrors.Errorf("mark template passes: %w", err)
		}
	}
	for _, p := range plans {
		if p == nil {
			continue
		}
		template := p.Preset.TemplateID
		if at, ok := res.RetryAt[template]; !p.RetryAt.IsZero() && (!ok || p.RetryAt.Before(at)) {
			res.RetryAt[template] = p.RetryAt
		}
		if p.Again || snap.spent[p.Preset.Provider] && p.HeldBackBy(prebuilds.ProviderMaximum) {
			res.Again = append(res.Again, template)
		}
	}
	return res, nil
}

// plan decides every preset in parallel, as Snapshot.Decide does one after the other. A preset that can't be planned has a nil
// plan and an error of its own.
func plan(snap snapshot) ([]*prebuilds.Plan, map[uuid.UUID]error) {
	groups := snap.ByPreset()
	errs := snap.Strays(groups)
	plans := make([]*prebuilds.Plan, len(snap.Presets))
	failed := make([]error, len(snap.Presets))
	// A goroutine for each preset would grow its stack for each: a plan is large.
	var eg errgroup.Group
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		eg.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(plans)); i = next.Add(1) - 1 {
				p := snap.Presets[i]
				made, err := snap.DecidePreset(p, groups[p.ID])
				if failed[i] = err; err == nil {
					plans[i] = &made
				}
			}
			return nil
		})
	}
	_ = eg.Wait()
	for i, err := range failed {
		if err != nil {
			errs[snap.Presets[i].ID] = err
		}
	}
	return plans, errs
}
