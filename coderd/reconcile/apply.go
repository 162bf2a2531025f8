package reconcile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// apply writes all plans in a constant number of statements. If that fails for a reason of the data, it goes preset by
// preset, each under its own savepoint, so that one bad preset is reported on itself and stops no other.
func (r *Reconciler) apply(ctx context.Context, tx pgx.Tx, snap snapshot, plans []*prebuilds.Plan, res *Result) error {
	err := underSavepoint(ctx, tx, func(db database.DBTX) error { return r.write(ctx, db, plans, res) })
	if err != nil {
		if hopeless(ctx, err) {
			return err
		}
		res.Created, res.Intents, res.Moves = 0, 0, 0
		for i, p := range plans {
			if p == nil {
				continue
			}
			err := underSavepoint(ctx, tx, func(db database.DBTX) error {
				return r.write(ctx, db, []*prebuilds.Plan{p}, res)
			})
			if err != nil {
				if hopeless(ctx, err) {
					return err
				}
				res.Errors[p.PresetID] = err
				plans[i] = nil
			}
		}
	}
	if err := r.storeStatus(ctx, tx, snap, plans, res); err != nil {
		return err
	}
	return storeShrunk(ctx, tx, snap, plans)
}

// hopeless errors end the transaction, not just a savepoint: it runs again, or its connection is gone.
func hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || database.IsSerialization(err) || database.IsDeadlock(err) || database.IsConnection(err)
}

func underSavepoint(ctx context.Context, tx pgx.Tx, fn func(database.DBTX) error) error {
	sp, err := tx.Begin(ctx)
	if err != nil {
		return xerrors.Errorf("set savepoint: %w", err)
	}
	if err := fn(sp); err != nil {
		if rollbackErr := sp.Rollback(ctx); rollbackErr != nil {
			return xerrors.Errorf("roll back to savepoint after %q: %w", err.Error(), rollbackErr)
		}
		return err
	}
	return sp.Commit(ctx)
}

// write makes the workspaces and intents of some plans.
func (r *Reconciler) write(ctx context.Context, db database.DBTX, plans []*prebuilds.Plan, res *Result) error {
	q := reconciledb.New(db)
	var planned []workspaces.Planned
	var intents reconciledb.InsertIntentsParams
	var moves reconciledb.InsertMovesParams
	for _, p := range plans {
		if p == nil {
			continue
		}
		for i := range p.Create {
			name, err := prebuilds.Name(r.Random)
			if err != nil {
				return err
			}
			w := workspaces.Planned{
				ID: r.NewID(), JobID: r.NewID(), PresetID: p.PresetID, Name: name, Priority: workspaces.PriorityPrebuild,
				Reason: fmt.Sprintf("C5: %d of %d", p.Counts.Actual+p.Counts.Starting+i+1, p.Counts.Desired+p.Counts.Waiting+p.Counts.Queued),
			}
			if i < p.Counts.Waiting+p.Counts.Queued { // somebody waits for it, or a job
				w.Priority = workspaces.PriorityPerson
			}
			planned = append(planned, w)
		}
		for _, in := range p.Intents {
			intents.WorkspaceIds = append(intents.WorkspaceIds, in.WorkspaceID)
			intents.Incarnations = append(intents.Incarnations, in.Incarnation)
			intents.Kinds = append(intents.Kinds, string(in.Kind))
			intents.Reasons = append(intents.Reasons, in.Rule+": "+explain.Text(in.Reason))
		}
		for _, m := range p.Moves {
			moves.WorkspaceIds = append(moves.WorkspaceIds, m.WorkspaceID)
			moves.Incarnations = append(moves.Incarnations, m.Incarnation)
			moves.Kinds = append(moves.Kinds, string(m.Kind))
			moves.Reasons = append(moves.Reasons, explain.Text(m.Reason))
		}
	}
	if err := r.Writer.Plan(ctx, db, planned); err != nil {
		return err
	}
	if len(intents.WorkspaceIds) > 0 {
		if err := q.InsertIntents(ctx, intents); err != nil {
			return xerrors.Errorf("write intents: %w", err)
		}
	}
	if len(moves.WorkspaceIds) > 0 {
		if err := q.InsertMoves(ctx, moves); err != nil {
			return xerrors.Errorf("write moves: %w", err)
		}
	}
	res.Created += len(planned)
	res.Moves += len(moves.WorkspaceIds)
	res.Intents += len(intents.WorkspaceIds)
	return nil
}

// storeStatus writes what changed of what people are shown. It is the same statement however many changed.
func (r *Reconciler) storeStatus(ctx context.Context, db database.DBTX, snap snapshot, plans []*prebuilds.Plan, res *Result) error {
	arg := reconciledb.StoreStatusParams{PassSeq: res.Seq}
	for i, preset := range snap.Presets {
		counts, ledger := json.RawMessage("{}"), json.RawMessage("{}")
		if p := plans[i]; p != nil {
			var err error
			if counts, err = json.Marshal(p.Counts); err != nil {
				return xerrors.Errorf("encode counts: %w", err)
			}
			if ledger, err = json.Marshal(explain.Stored(p.Ledger)); err != nil {
				return xerrors.Errorf("encode ledger: %w", err)
			}
		}
		message := ""
		if err := res.Errors[preset.ID]; err != nil {
			message = err.Error()
		}
		digest := statusDigest(counts, ledger, message)
		if bytes.Equal(digest, snap.digests[preset.ID]) {
			continue
		}
		arg.PresetIds = append(arg.PresetIds, preset.ID)
		arg.Counts = append(arg.Counts, counts)
		arg.Ledgers = append(arg.Ledgers, ledger)
		arg.Errors = append(arg.Errors, message)
		arg.Digests = append(arg.Digests, digest)
	}
	res.Changed = len(arg.PresetIds)
	if res.Changed == 0 {
		return nil
	}
	if err := reconciledb.New(db).StoreStatus(ctx, arg); err != nil {
		return xerrors.Errorf("write status: %w", err)
	}
	return nil
}

func statusDigest(counts, ledger json.RawMessage, message string) []byte {
	all := make([]byte, 0, len(counts)+len(ledger)+len(message)+32)
	for _, part := range [][]byte{counts, ledger, []byte(message)} {
		all = append(strconv.AppendInt(all, int64(len(part)), 10), ':')
		all = append(all, part...)
	}
	sum := sha256.Sum256(all)
	return sum[:]
}

func (r *Reconciler) storeHeadroom(ctx context.Context, db database.DBTX, left map[string]prebuilds.Limits) error {
	var arg reconciledb.StoreHeadroomParams
	for name, l := range left {
		if l.Maximum > 0 {
			arg.Providers = append(arg.Providers, name)
			arg.Maxima = append(arg.Maxima, int32(l.Maximum))
			arg.Instances = append(arg.Instances, int32(max(0, l.Maximum-l.Live)))
		}
	}
	if len(arg.Providers) == 0 {
		return nil
	}
	if err := reconciledb.New(db).StoreHeadroom(ctx, arg); err != nil {
		return xerrors.Errorf("store headroom: %w", err)
	}
	return nil
}

// storeCreateRates writes what was spent of the rates of creates (S5). Of a preset that could not be written it was spent
// all the same: rather one create less than one too many.
func storeCreateRates(ctx context.Context, db database.DBTX, before, left map[string]prebuilds.Limits) error {
	var arg reconciledb.StoreCreateRatesParams
	for _, name := range slices.Sorted(maps.Keys(left)) {
		was, is := before[name].Rate, left[name].Rate
		if is != nil && was != nil && !is.FullAt().Equal(was.FullAt()) {
			arg.Providers = append(arg.Providers, name)
			arg.FullAt = append(arg.FullAt, is.FullAt())
		}
	}
	if len(arg.Providers) == 0 {
		return nil
	}
	if err := reconciledb.New(db).StoreCreateRates(ctx, arg); err != nil {
		return xerrors.Errorf("store rates of creates: %w", err)
	}
	return nil
}
