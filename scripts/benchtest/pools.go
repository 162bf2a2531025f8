package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// bareBatch is how many claims one bare statement makes, and bareClients how many run at once: as many as 32 clients of the store
// come to.
const bareBatch, bareClients = 16, 2

// pools says what it costs to claim from 1,000 pools in turn and not from one, and what of it is PostgreSQL's own: a bare
// statement that reads the same rows and entries of indexes and writes the same rows, and knows neither keys, leases nor quotas,
// is run on both as well; and so is the statement of claims itself, by as few clients. All take turns.
func pools(ctx context.Context, b *bench) {
	const clients = 32
	one := &setting{image: b.stocked(ctx, 1, 0), samples: map[side][]sample{}}
	defer one.image.drop()
	many := &setting{name: ".1000-pools", image: b.stocked(ctx, 1000, 0), samples: map[side][]sample{}}
	defer many.image.drop()
	type turn struct{ one, many sample }
	var claims, alone, bare []turn
	for range b.rounds {
		claims = append(claims, turn{one.measure(ctx, b, store, clients), many.measure(ctx, b, store, clients)})
		alone = append(alone, turn{one.batches(ctx, b, (*batches).claim), many.batches(ctx, b, (*batches).claim)})
		bare = append(bare, turn{one.batches(ctx, b, (*batches).bare), many.batches(ctx, b, (*batches).bare)})
	}
	for _, l := range []struct {
		name  string
		turns []turn
	}{{"pools.claims", claims}, {"pools.statement", alone}, {"pools.bare", bare}} {
		var first, rates, costs, all, spent, wal, walOfOne []float64
		for _, t := range l.turns {
			first, all, spent = append(first, t.one.perSecond), append(all, t.many.perSecond), append(spent, micros(t.many))
			wal, walOfOne = append(wal, t.many.wal), append(walOfOne, t.one.wal)
			rates, costs = append(rates, t.many.perSecond/t.one.perSecond), append(costs, micros(t.many)/micros(t.one))
		}
		line(l.name+".1", median(first), "/s", 0, "")
		lineRatio(l.name+".1000", median(all), "/s", median(rates), l.name+".1-right-before")
		lineRatio(l.name+".1000.processor", median(spent), "us", median(costs), l.name+".1-right-before")
		line(l.name+".1000.log", median(wal), "bytes", median(walOfOne), l.name+".1")
	}
}

// bareClaim takes the oldest ready workspaces of each pool from a time on, if it may be claimed from, and writes what a claim writes.
// Its arrays hide their lengths, as those of ClaimBatch do: else a batch of one pool is planned again each time, and looks dearer than
// it is.
const bareClaim = `WITH picked AS MATERIALIZED (
  SELECT ready.id, ready.ready_at, row_number() OVER () AS place
  FROM (
    SELECT unnest((SELECT $1::uuid[])) AS preset, unnest((SELECT $2::bigint[])) AS wanted, unnest((SELECT $3::timestamptz[])) AS floor
  ) p
  CROSS JOIN LATERAL (
    SELECT preset.pool_key AS key FROM presets preset JOIN templates t ON t.id = preset.template_id
    WHERE preset.id = p.preset AND preset.deleted_at IS NULL AND t.deleted_at IS NULL AND t.deprecated_at IS NULL LIMIT 1
  ) open
  CROSS JOIN LATERAL (
    SELECT w.id, w.ready_at FROM workspaces w
    WHERE w.state = 'ready' AND w.preset_id = p.preset AND w.pool_key = open.key AND w.ready_at >= p.floor
    ORDER BY w.ready_at, w.id LIMIT p.wanted FOR NO KEY UPDATE SKIP LOCKED
  ) ready
), moved AS (
  UPDATE workspaces w
  SET state = 'claimed', state_at = now(), claimed_at = now(), owner_id = $4, claim_id = c.id
  FROM picked JOIN unnest((SELECT $5::uuid[])) WITH ORDINALITY AS c (id, place) ON c.place = picked.place
  WHERE w.id = picked.id
  RETURNING w.*
), claim AS (
  INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation, created_at, bound_at)
  SELECT claim_id, organization_id, preset_id, owner_id, 'require', 'bound', 'hit', id, incarnation, now(), now() FROM moved
), hist AS (
  INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
  SELECT id, incarnation, 'ready', 'claimed', now(), owner_id, 'claimed' FROM moved
), audit AS (
  INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, after, source)
  SELECT now(), owner_id, organization_id, 'workspace.claim', 'workspace', id::text, name, jsonb_build_object('claim_id', claim_id), 'bench'
  FROM moved
)
SELECT id, preset_id, ready_at FROM moved`

// batches takes one window of statements, each for a batch of claims, on a copy of the setting's image.
func (s *setting) batches(ctx context.Context, b *bench, statement func(*batches, context.Context, batch) []claimed) sample {
	d := s.image.open(ctx)
	defer d.close()
	b.checkpoint(ctx)
	all := newBatches(d)
	loop := func(window time.Duration) sample {
		workers := make([]func(), bareClients)
		for i := range workers {
			workers[i] = func() { all.one(ctx, statement) }
		}
		return b.loop(workers, 0, window)
	}
	loop(warmUp)
	log := b.wal(ctx)
	got := loop(b.window())
	got.wal = float64(b.wal(ctx)-log) / float64(got.n*bareBatch)
	got.perSecond *= bareBatch
	got.processor /= bareBatch
	return got
}

// batches claim from pools in turn, and know where the ready ones of each begin.
type batches struct {
	*desk
	db     database.DBTX
	mu     sync.Mutex
	next   int
	floors []time.Time
}

func newBatches(d *desk) *batches {
	return &batches{desk: d, db: d.store, floors: make([]time.Time, len(d.pools))}
}

// batch is how many are wanted of each of some pools, and the ids of the claims.
type batch struct {
	presets []uuid.UUID
	wanted  []int64
	floors  []time.Time
	claims  []uuid.UUID
}

// claimed is a workspace of a batch.
type claimed struct {
	preset uuid.UUID
	ready  time.Time
}

func (all *batches) one(ctx context.Context, statement func(*batches, context.Context, batch) []claimed) {
	o, of := batch{claims: make([]uuid.UUID, bareBatch)}, map[uuid.UUID]int{}
	all.mu.Lock()
	for i := range o.claims {
		o.claims[i] = newID()
		at := all.next % len(all.pools)
		all.next++
		p := all.pools[at]
		if k := slices.Index(o.presets, p.preset); k >= 0 {
			o.wanted[k]++
			continue
		}
		of[p.preset] = at
		o.presets, o.wanted, o.floors = append(o.presets, p.preset), append(o.wanted, 1), append(o.floors, all.floors[at])
	}
	all.mu.Unlock()
	got := statement(all, ctx, o)
	if len(got) < bareBatch {
		must(errMiss)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range got {
		if at := of[c.preset]; c.ready.After(all.floors[at]) { // what is before it and still ready is another batch's by now
			all.floors[at] = c.ready
		}
	}
}

// bare is bareClaim.
func (all *batches) bare(ctx context.Context, o batch) (got []claimed) {
	rows := get(all.db.Query(ctx, bareClaim, o.presets, o.wanted, o.floors, all.owner, o.claims))
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var c claimed
		must(rows.Scan(&id, &c.preset, &c.ready))
		got = append(got, c)
	}
	must(rows.Err())
	return got
}

// claim is the statement of claims.
func (all *batches) claim(ctx context.Context, o batch) (got []claimed) {
	arg := workspacesdb.ClaimBatchParams{
		Pools: o.presets, Floors: o.floors, ClaimIds: o.claims, IdempotencyKeys: make([]string, len(o.claims)), Leases: make([]int32, len(o.claims)),
	}
	for k, n := range o.wanted {
		for range n {
			arg.PresetIds, arg.UserIds = append(arg.PresetIds, o.presets[k]), append(arg.UserIds, all.owner)
			arg.Modes, arg.Sources = append(arg.Modes, "require"), append(arg.Sources, "bench")
		}
	}
	for _, w := range get(workspacesdb.New(all.db).ClaimBatch(ctx, arg)) {
		got = append(got, claimed{w.PresetID, *w.ReadyAt})
	}
	return got
}
