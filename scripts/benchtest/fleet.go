package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
)

// fleet is a database with pools t1/default, t2/default, … on one provider.
type fleet struct {
	provider string // its name and kind
	store    *database.Store
	url      string
	drop     func()
	pools    []pool
	made     int // workspaces, so that each became ready at a time of its own
	owner    uuid.UUID
	token    auth.Secret
	seen     map[uuid.UUID]bool // claimed in this database

	cloud        string // where the files of `sim` are, to have resources made too; no resources where empty
	installation uuid.UUID
}

type pool struct {
	name                           string
	template, version, preset, key uuid.UUID
}

// epoch is when the first workspace of a fleet became ready.
var epoch = time.Now().Add(-24 * time.Hour)

// fleet makes pools on `sim` that want so many prebuilds each, empty as yet.
func (b *bench) fleet(ctx context.Context, pools, instances int) *fleet {
	return b.fleetOn(ctx, "sim", pools, instances)
}

func (b *bench) fleetOn(ctx context.Context, provider string, pools, instances int) *fleet {
	store, address, drop := b.store(ctx)
	f := &fleet{provider: provider, store: store, url: address, drop: drop, seen: map[uuid.UUID]bool{}}
	get(store.Pool.Exec(ctx, b.sql, pgx.QueryExecModeSimpleProtocol))
	_, _, err := auth.EnsureOwner(ctx, store, b.scratch)
	must(err)
	f.owner = one[uuid.UUID](ctx, f, "SELECT id FROM users WHERE name = 'owner'")
	by := auth.Identity{
		Principal:  auth.Principal{UserID: f.owner, User: "owner"},
		Membership: auth.Membership{OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner},
	}
	_, f.token, err = auth.CreateToken(ctx, store, by, auth.TokenRequest{Name: "bench"})
	must(err)
	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO providers (name, kind, chunk, creates_in_flight, updated_at) VALUES ($1, $1, 1000000, 64, now())", provider)
	// What is filled in by SQL is at no provider: the first inventory of a server would open the breaker.
	batch.Queue(`INSERT INTO inventories (provider, leased_until, due_at, full_at)
		VALUES ($1, now(), now() + interval '1 day', now())`, provider)
	for n := range pools {
		p := pool{fmt.Sprintf("t%d", n+1), uuid.New(), uuid.New(), uuid.New(), uuid.New()}
		f.pools = append(f.pools, p)
		batch.Queue(`INSERT INTO templates (id, organization_id, name, provider, created_at, updated_at)
			VALUES ($1, $2, $3, $4, now(), now())`, p.template, auth.DefaultOrganizationID, p.name, provider)
		batch.Queue(`INSERT INTO template_versions (id, template_id, number, hash, provider, spec, created_at, created_by)
			VALUES ($1, $2, 1, $3, $5, '{}', now(), $4)`, p.version, p.template, p.name, f.owner, provider)
		batch.Queue("UPDATE templates SET active_version_id = $1 WHERE id = $2", p.version, p.template)
		batch.Queue(`INSERT INTO presets (id, organization_id, template_id, name, pool_key, instances, created_at, updated_at)
			VALUES ($1, $2, $3, 'default', $4, $5, now(), now())`, p.preset, auth.DefaultOrganizationID, p.template, p.key, instances)
	}
	must(store.Pool.SendBatch(ctx, batch).Close())
	return f
}

// add makes ready workspaces, spread evenly over the pools.
func (f *fleet) add(ctx context.Context, n int) { f.insertAll(ctx, n, "ready") }

// addClaimed makes claimed ones, with their claims.
func (f *fleet) addClaimed(ctx context.Context, n int) { f.insertAll(ctx, n, "claimed") }

func (f *fleet) insertAll(ctx context.Context, n int, state string) {
	const step = 10_000
	for ; n > 0; n -= step {
		f.insert(ctx, min(n, step), state)
	}
}

func (f *fleet) insert(ctx context.Context, n int, state string) {
	var ids, claims, templates, versions, presets, keys []uuid.UUID
	var names []string
	var ready []time.Time
	for range n {
		p := f.pools[f.made%len(f.pools)]
		name := get(prebuilds.Name(rand.Reader))
		ids, claims, names = append(ids, newID()), append(claims, newID()), append(names, name)
		templates, versions = append(templates, p.template), append(versions, p.version)
		presets, keys = append(presets, p.preset), append(keys, p.key)
		ready = append(ready, epoch.Add(time.Duration(f.made)*time.Millisecond/10))
		f.made++
	}
	f.build(ids, names)
	must(pgx.BeginFunc(ctx, f.store.Pool, func(tx pgx.Tx) error {
		get(tx.Exec(ctx, "SET LOCAL session_replication_role = replica"))
		get(tx.Exec(ctx, `INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id,
			pool_key, provider, parameters, state, owner_id, claim_id, provider_id, created_at, state_at, ready_at, claimed_at)
			SELECT u.id, u.name, $1, u.template, u.version, u.preset, u.key, $12, '{}', $2::workspace_state,
			       CASE WHEN $2 = 'claimed' THEN $3::uuid ELSE '00000000-0000-4000-8000-000000000002' END,
			       CASE WHEN $2 = 'claimed' THEN u.claim END, $12 || '-' || u.name, u.ready, u.ready, u.ready,
			       CASE WHEN $2 = 'claimed' THEN u.ready END
			FROM unnest($4::uuid[], $5::text[], $6::uuid[], $7::uuid[], $8::uuid[], $9::uuid[], $10::uuid[], $11::timestamptz[])
			       AS u (id, name, template, version, preset, key, claim, ready)`,
			auth.DefaultOrganizationID, state, f.owner, ids, names, templates, versions, presets, keys, claims, ready, f.provider))
		if state != "claimed" {
			return nil
		}
		_, err := tx.Exec(ctx, `INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id,
			incarnation, created_at, bound_at)
			SELECT w.claim_id, w.organization_id, w.preset_id, w.owner_id, 'require', 'bound', 'hit', w.id, 1, w.ready_at, w.ready_at
			FROM workspaces w WHERE w.id = ANY ($1)`, ids)
		return err
	}))
}

// undo takes away what passes made and no worker touched, and has pools want so many prebuilds each again.
func (f *fleet) undo(ctx context.Context, instances int) {
	must(pgx.BeginFunc(ctx, f.store.Pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue("SET LOCAL session_replication_role = replica")
		batch.Queue("DELETE FROM jobs WHERE kind = 'create'")
		batch.Queue("DELETE FROM workspace_history WHERE to_state = 'provisioning'")
		batch.Queue("DELETE FROM audit_log WHERE action = 'workspace.create'")
		batch.Queue("DELETE FROM workspaces WHERE state = 'provisioning'")
		batch.Queue("UPDATE presets SET instances = $1", instances)
		return tx.SendBatch(ctx, batch).Close()
	}))
	f.settle(ctx)
}

// stock sees to it that so many are ready.
func (f *fleet) stock(ctx context.Context, n int) {
	f.add(ctx, n-f.ready(ctx))
}

func (f *fleet) ready(ctx context.Context) int {
	return one[int](ctx, f, "SELECT count(*) FROM workspaces WHERE state = 'ready'")
}

// full waits until so many are ready.
func (f *fleet) full(ctx context.Context, n int) {
	until(ctx, 3*time.Minute, "pools are filled", func() bool { return f.ready(ctx) >= n })
}

// one reads one value.
func one[T any](ctx context.Context, f *fleet, sql string, args ...any) (v T) {
	must(f.store.Pool.QueryRow(ctx, sql, args...).Scan(&v))
	return v
}

// settle vacuums and analyses what was filled.
func (f *fleet) settle(ctx context.Context) {
	conn := get(f.store.Pool.Acquire(ctx))
	defer conn.Release()
	for _, s := range []string{"SET statement_timeout = 0", "VACUUM ANALYZE", "SET statement_timeout = '30s'"} {
		get(conn.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol))
	}
}
