package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// sizeClients make claims on a fleet of size, and sizeRate are how many they make a second beside other work.
const sizeClients, sizeRate = 8, 500

// size measures a fleet that has lived for years: b.ended claims that are over, twice as many rows of history and of the audit
// log, and a tenth of it live workspaces, each with rows of history of all ages. A third of the claims and of history are older
// than they are kept, and a twelfth of the audit log. Claims are compared with those of a fleet that began today.
func size(ctx context.Context, b *bench) {
	young := &setting{name: ".young", image: b.stocked(ctx, 100, 0), samples: map[side][]sample{}}
	defer young.image.drop()
	f := b.fleet(ctx, 100, 0)
	d := f.open()
	defer d.close()
	conn := get(f.store.Pool.Acquire(ctx))
	defer conn.Release()
	get(conn.Exec(ctx, "SET statement_timeout = 0; SET session_replication_role = replica", pgx.QueryExecModeSimpleProtocol))
	timed := func(name, statement string, args ...any) {
		began := time.Now()
		get(conn.Exec(ctx, statement, args...))
		line("size."+name, time.Since(began).Seconds(), "s", 0, "")
	}
	f.addClaimed(ctx, b.ended/10)
	// As if the upkeep had run every week, so that the partitions are those of a fleet which had them all the time.
	get(conn.Exec(ctx, `DO $$ BEGIN
		FOR k IN REVERSE 70..0 LOOP
			PERFORM set_config('prewarm.now', (now() - k * interval '1 week')::text, false);
			WHILE prewarm_keep_log('audit_log', 'month', interval '10 years', 1) <> '' LOOP END LOOP;
			CONTINUE WHEN k > 12;
			WHILE prewarm_keep_log('workspace_history', 'week', interval '10 years', 1) <> '' LOOP END LOOP;
		END LOOP;
		PERFORM set_config('prewarm.now', '', false);
	END $$`))
	keeper := &retention.Keeper{Store: f.store, Clock: quartz.NewReal(), Log: slog.Make()}
	timed("fill.claims", `INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation,
			created_at, bound_at, released_at)
		SELECT a.id, $1, (SELECT array_agg(id) FROM presets)[n % 100 + 1], $2, 'require', 'released', 'hit', a.workspace, 1, a.at, a.at, a.at
		FROM generate_series(1, $3) n, LATERAL (SELECT now() - interval '45 days' * (($3 - n)::float8 / $3) AS at) t,
		     LATERAL (SELECT t.at, substring(int8send((extract(epoch FROM t.at) * 1000)::bigint) FROM 3) AS ms) m,
		     LATERAL (SELECT m.at, encode(m.ms || substring(uuid_send(gen_random_uuid()) FROM 7), 'hex')::uuid AS id,
		                     encode(m.ms || substring(uuid_send(gen_random_uuid()) FROM 7), 'hex')::uuid AS workspace) a`,
		auth.DefaultOrganizationID, f.owner, b.ended)
	timed("fill.history", `INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
		SELECT CASE WHEN n % 10 < 2 THEN (w.ids)[1 + n % array_length(w.ids, 1)] ELSE md5((n / 4)::text)::uuid END, 1, 'ready',
		       now() - interval '45 days' * (($1 - n)::float8 / $1), $2
		FROM (SELECT array_agg(id) AS ids FROM workspaces) w, generate_series(1, $1) n`, 2*b.ended, f.owner)
	timed("fill.audit", `INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id)
		SELECT now() - interval '400 days' * (($1 - n)::float8 / $1), $2, $3, 'workspace.claim', 'workspace', md5((n / 4)::text)
		FROM generate_series(1, $1) n`, 2*b.ended, f.owner, auth.DefaultOrganizationID)
	timed("vacuum-analyze", "VACUUM ANALYZE")
	f.views(ctx, "full")
	d.besideYoung(ctx, b, young)
	for _, l := range []struct{ name, unit, keep string }{{"workspace_history", "week", "30 days"}, {"audit_log", "month", "365 days"}} {
		began, longest := time.Now(), time.Duration(0)
		for step := "begin"; step != ""; {
			from := time.Now()
			must(conn.QueryRow(ctx, "SELECT prewarm_keep_log($1, $2, $3::interval, 100000)", l.name, l.unit, l.keep).Scan(&step))
			longest = max(longest, time.Since(from))
		}
		line("size.drop."+l.name, time.Since(began).Seconds(), "s", 0, "")
		line("size.drop."+l.name+".longest-step", longest.Seconds(), "s", 0, "")
	}
	d.restock(ctx, b)
	var alone sample
	within("size.alone", func() { alone = d.measure(ctx, b, overHTTP, sizeClients, sizeRate) })
	besides := func(name string, work func()) {
		began := time.Now()
		with := d.while(ctx, b, sizeClients, sizeRate, work)
		line("size."+name, time.Since(began).Seconds(), "s", 0, "")
		line("size."+name+".claims.p50", middle(with, p50), "ms", p50(alone), "without-it")
		line("size."+name+".claims.p99", middle(with, p99), "ms", p99(alone), "without-it")
	}
	besides("retention", func() { must(keeper.Purge(ctx)) })
	began := time.Now()
	must(keeper.Purge(ctx))
	line("size.retention.again", time.Since(began).Seconds(), "s", 0, "")
	d.restock(ctx, b)
	besides("vacuum-claims", func() { get(conn.Exec(ctx, "VACUUM claims", pgx.QueryExecModeSimpleProtocol)) })
	timed("vacuum", "VACUUM")
	f.views(ctx, "kept")
	for _, table := range []string{"claims", "workspace_history", "audit_log", "workspaces"} {
		line("size."+table, one[float64](ctx, f, `SELECT sum(pg_total_relation_size(c.oid))::float8 / 1e6 FROM pg_class c
			WHERE c.oid = $1::regclass OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = $1::regclass)`, table), "MB", 0, "")
	}
}

// besideYoung has claims take turns with those of a young fleet.
func (d *desk) besideYoung(ctx context.Context, b *bench, young *setting) {
	got := map[side][]sample{}
	for range b.rounds {
		for _, side := range sides {
			young.measure(ctx, b, side, sizeClients)
			d.restock(ctx, b)
			within("size.claims", func() { got[side] = append(got[side], d.measure(ctx, b, side, sizeClients, 0)) })
		}
	}
	for _, side := range sides {
		compare(fmt.Sprintf("size.claims.%s.%d", side, sizeClients), got[side], young.samples[side], "a-young-fleet")
	}
}

// restock sees to it that there is enough to claim for a while, as in the images that others claim from.
func (d *desk) restock(ctx context.Context, b *bench) {
	d.stock(ctx, b.stock())
	get(d.store.Pool.Exec(ctx, "VACUUM ANALYZE workspaces", pgx.QueryExecModeSimpleProtocol))
}

// while has clients claim over HTTP, so many a second, for as long as the work lasts.
func (d *desk) while(ctx context.Context, b *bench, clients int, rate float64, work func()) (with []sample) {
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for working.Err() == nil {
			with = append(with, d.run(ctx, b, overHTTP, clients, rate, time.Second))
		}
	})
	work()
	stop()
	all.Wait()
	return with
}

// views measures what pages read of it, the median of 20 reads.
func (f *fleet) views(ctx context.Context, when string) {
	q := viewsdb.New(f.store)
	ids := get(q.EndedClaims(ctx, viewsdb.EndedClaimsParams{
		State: database.ClaimStateReleased, OrganizationID: auth.DefaultOrganizationID, MaxClaims: 100,
	}))
	claims := make([]uuid.UUID, len(ids))
	for i, c := range ids {
		claims[i] = c.ID
	}
	workspace := one[uuid.UUID](ctx, f, "SELECT id FROM workspaces LIMIT 1")
	for _, v := range []struct {
		name string
		read func() error
	}{
		{"ended-claims", func() error {
			_, err := q.EndedClaims(ctx, viewsdb.EndedClaimsParams{
				State: database.ClaimStateReleased, OrganizationID: auth.DefaultOrganizationID, MaxClaims: 100,
			})
			return err
		}},
		{"claims", func() error { _, err := q.ClaimViews(ctx, claims); return err }},
		{"audit", func() error {
			_, err := q.AuditLog(ctx, viewsdb.AuditLogParams{OrganizationID: auth.DefaultOrganizationID, MaxEntries: 100})
			return err
		}},
		{"history", func() error { _, err := q.HistoryViews(ctx, workspace); return err }},
	} {
		var took []float64
		for range 20 {
			began := time.Now()
			must(v.read())
			took = append(took, time.Since(began).Seconds()*1000)
		}
		line(fmt.Sprintf("size.%s.%s", v.name, when), median(took), "ms", 0, "")
	}
}
