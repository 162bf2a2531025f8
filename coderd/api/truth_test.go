package api_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

const (
	truthPools  = 110 // in each of three rounds, the last of them under a global pause
	truthRounds = 3
)

// truthPool is what the test drew for one pool and has to know of it afterwards.
type truthPool struct {
	name      string
	preset    uuid.UUID
	all       bool // instances: all, and nothing in its place
	returning uuid.UUID
}

// TestTruth_everyReaderSaysTheSame makes pools of every kind, lets passes run until they have nothing to do, and asks all who
// say anything of a pool: the planner (by a preview, as `explain` and `plan` do), `preset list` and `preset show`, the page of
// pools, the metrics, the return of a released or quarantined workspace, and the reason of a missed claim.
func TestTruth_everyReaderSaysTheSame(t *testing.T) {
	t.Parallel()
	for round := range truthRounds {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			t.Parallel()
			truthRound(t, uint64(round), round == truthRounds-1)
		})
	}
}

func truthRound(t *testing.T, seed uint64, globalPause bool) {
	t.Helper()
	ctx := context.Background()
	w := newWorld(t)
	d := drawing{t: t, world: w, random: mathrand.New(mathrand.NewPCG(seed, 17))}
	d.prepare()
	var pools []truthPool
	for n := range truthPools {
		pools = append(pools, d.pool(n))
	}
	if globalPause {
		d.exec("INSERT INTO pauses VALUES ($1, 'global', '', 'everything', prewarm_now(), $2)", uuid.New(), w.owner.UserID)
	}
	passes := reconcile.New(reconcile.Options{
		Store: w.store, Writer: workspaces.New(w.store, uuid.New, "test"), Clock: quartz.NewReal(),
		Log: slogtest.Make(t, nil), Registerer: prometheus.NewRegistry(), Replica: "test", Tick: time.Minute, Random: rand.Reader,
		NewID: uuid.New, Hints: w.hints(),
	})
	for n := 0; ; n++ {
		res, err := passes.Pass(ctx)
		require.NoError(t, err)
		require.Empty(t, res.Errors)
		if res.Created+res.Intents+res.Moves+res.Changed == 0 {
			break
		}
		require.Less(t, n, 20, "passes find more to do at the same instant: %+v", res)
	}

	var preview reconcile.Preview
	opts := database.TxOptions{Label: "truth", Isolation: pgx.RepeatableRead, ReadOnly: true}
	require.NoError(t, w.store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) (err error) {
		preview, err = passes.Preview(ctx, tx, nil)
		return err
	}))
	planned := map[uuid.UUID]reconcile.Previewed{}
	for _, p := range preview.Presets {
		require.NoError(t, p.Err)
		planned[p.Preset.ID] = p
	}
	listed := map[uuid.UUID]sdk.Preset{}
	presets, err := w.as("member").Presets(ctx)
	require.NoError(t, err)
	for _, p := range presets {
		listed[p.ID] = p
	}
	shown := map[uuid.UUID]sdk.Pool{}
	page, err := w.as("member").Pools(ctx, nil, 500, "")
	require.NoError(t, err)
	require.Empty(t, page.Next)
	for _, p := range page.Pools {
		shown[p.ID] = p
	}
	measured := map[uuid.UUID]alerts.Preset{}
	snap, err := alerts.NewReader(w.store, quartz.NewReal(), provider.NewRegistry(nil, nil).Refuses).Read(ctx)
	require.NoError(t, err)
	for _, p := range snap.Presets {
		measured[p.ID] = p
	}
	dry, err := w.as("admin").MakePlan(ctx, sdk.PlanRequest{})
	require.NoError(t, err)
	drawn := map[string]sdk.PresetPlan{}
	for _, p := range dry.Presets {
		drawn[p.Template] = p
	}

	kinds := map[string]int{}
	for _, pool := range pools {
		p := planned[pool.preset]
		c := p.Plan.Counts
		say := fmt.Sprintf("seed %d, pool %s\n%+v\n%s", seed, pool.name, c, explain.Plan(p.Plan))
		require.Equal(t, c, countsOf(listed[pool.preset].Counts), "preset list: %s", say)
		require.Equal(t, c, measured[pool.preset].Counts, "metrics: %s", say)
		require.Equal(t, p.Plan.Ledger.Going(), measured[pool.preset].ToDelete, "metrics: %s", say)
		require.Equal(t, p.Plan.Create, measured[pool.preset].ToCreate, "metrics: %s", say)
		require.Equal(t, []int{c.Desired, c.Actual, c.Starting, p.Plan.Create},
			[]int{drawn[pool.name].Desired, drawn[pool.name].Actual, drawn[pool.name].Starting, drawn[pool.name].Create}, "plan: %s", say)

		view := shown[pool.preset]
		require.Equal(t, []int{c.Desired, c.Waiting}, []int{view.Desired, view.Waiting}, "pools: %s", say)
		require.Equal(t, sdk.Slots{
			Ready: c.Actual, Starting: c.Starting, Outdated: c.Outdated, Leaving: c.Stopping + c.Deleting + c.Expired,
			Failed: c.Quarantined, Claimed: view.Slots.Claimed,
		}, view.Slots, "pools: %s", say)
		for _, paused := range []string{view.Paused, listed[pool.preset].Paused} {
			require.Equal(t, p.Preset.Pause == "", paused == "", "pause: %s", say)
			require.Contains(t, paused, p.Preset.Pause, "pause: %s", say)
		}

		explained, err := w.as("member").ExplainPreset(ctx, pool.name, "default")
		require.NoError(t, err)
		require.Equal(t, c, countsOf(explained.Counts), "explain: %s", say)
		lines := codesOf(p.Plan.Ledger)
		require.Equal(t, lines, codesOfLines(explained.Lines), "explain: %s", say)
		require.Equal(t, lines, codesOfLines(drawn[pool.name].Lines), "plan: %s", say)
		var why []sdk.Reason
		for i, r := range explain.Reasons(p.Plan.Ledger) {
			why = append(why, sdk.Reason{Code: string(r.Code), Text: r.Text})
			require.Equal(t, r.Text, listed[pool.preset].Reasons[i], "preset list: %s", say)
		}
		require.ElementsMatch(t, why, listed[pool.preset].Why, "preset list: %s", say)
		require.ElementsMatch(t, why[:min(3, len(why))], view.Why, "pools: %s", say)
		stopped := slices.Contains(lines, string(prebuilds.HardLimited))
		require.Equal(t, stopped, measured[pool.preset].HardLimit != "", "metrics: %s", say)

		room, err := workspacesdb.New(w.store).RoomFor(ctx, pool.returning)
		require.NoError(t, err)
		wanted := c.Desired + c.Waiting - len(p.Preset.Cold)
		if pool.all && p.Preset.Retired == "" { // what comes back takes its machine with it
			wanted = c.Actual + c.Starting + 1 + c.Waiting - len(p.Preset.Cold)
		}
		require.Equal(t, []any{wanted, c.Actual + c.Starting, p.Preset.Pause != "", p.Preset.Retired == ""},
			[]any{int(room.Wanted), int(room.Has), room.Paused, room.Current}, "reuse: %s", say)

		missed, err := viewsdb.New(w.store).PoolView(ctx, pool.preset)
		require.NoError(t, err)
		require.Equal(t, []int{c.Desired, c.Starting}, []int{int(missed.Desired), int(missed.Starting)}, "miss: %s", say)
		var expect prebuilds.Code
		switch {
		case p.Preset.Retired != "":
			expect = p.Preset.Retired
		case p.Preset.FailureStreak > 0:
			expect = prebuilds.CreatesFail
		case !listed[pool.preset].Pool:
			expect = explain.MissNoPool
		case c.Desired == 0:
			expect = explain.MissScaledToZero
		case c.Starting > 0:
			expect = explain.MissStarting
		default:
			expect = explain.MissNoneReady
		}
		require.Equal(t, expect, claim.WhyMissed(missed).Code, "miss: %s", say)
		for kind, is := range map[string]bool{
			"all machines": pool.all && c.Desired > 0, "desired": c.Desired > 0, "none desired": c.Desired == 0,
			"autosized": p.Preset.Autosized, "scheduled": p.Preset.Schedule != nil, "retired": p.Preset.Retired != "",
			"paused": p.Preset.Pause != "", "cold": len(p.Preset.Cold) > 0, "waiting": c.Waiting > 0, "queued": c.Queued > 0,
			"extraneous": c.Extraneous > 0, "renewal": p.Preset.RenewAhead > 0, "outdated": c.Outdated > 0, "expired": c.Expired > 0,
			"quarantined": c.Quarantined > 0, "standby": c.Standby > 0, "hard limit": measured[pool.preset].HardLimit != "",
			"runners": p.Preset.Runner != nil,
		} {
			if is {
				kinds[kind]++
			}
		}
	}
	t.Logf("seed %d: %v", seed, kinds)
	if globalPause {
		require.Equal(t, truthPools, kinds["paused"])
		require.NotZero(t, kinds["extraneous"])
		return
	}
	require.Len(t, kinds, 18, "every kind of pool was met: %v", kinds)
}

// codesOf are the codes of a ledger's lines in the order in which they are explained.
func codesOf(l prebuilds.Ledger) []string {
	var codes []string
	for _, line := range l.Creates {
		codes = append(codes, string(line.Code))
	}
	codes = append(codes, "") // create
	for _, line := range slices.Concat(l.Drains, l.Moves) {
		codes = append(codes, string(line.Code))
	}
	if r := l.Rollout; r != nil && r.Phase == prebuilds.RolloutStopped {
		codes = append(codes, string(r.Code))
	}
	return codes
}

func codesOfLines(lines []sdk.LedgerLine) []string {
	var codes []string
	for _, line := range lines {
		codes = append(codes, line.ReasonCode)
	}
	return codes
}

func countsOf(c sdk.Counts) prebuilds.Counts {
	return prebuilds.Counts{
		Desired: c.Desired, Actual: c.Actual, Standby: c.Standby, Eligible: c.Eligible, Starting: c.Starting,
		Stopping: c.Stopping, Deleting: c.Deleting, Outdated: c.Outdated, Extraneous: c.Extraneous, Expired: c.Expired,
		Quarantined: c.Quarantined, Waiting: c.Waiting, Queued: c.Queued,
	}
}

// drawing makes pools by chance.
type drawing struct {
	t      *testing.T
	world  *world
	random *mathrand.Rand
	entity uuid.UUID
	jobs   int
}

func (d *drawing) exec(sql string, args ...any) {
	d.t.Helper()
	_, err := d.world.store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(d.t, err, sql)
}

func (d *drawing) chance(percent int) bool { return d.random.IntN(100) < percent }

// prepare makes providers of each kind, at an instant that does not move.
func (d *drawing) prepare() {
	d.t.Helper()
	dbtest.SetNow(d.t, d.world.store, time.Now().Truncate(time.Second))
	d.entity = dbtest.Forge(d.t, d.world.store, "acme", "github", "organization")
	d.exec("DELETE FROM presets") // each pool gets a template of its own
	d.exec("UPDATE providers SET chunk = 10000")
	d.exec(`INSERT INTO providers SELECT (jsonb_populate_record(p, jsonb_build_object('name', n, 'maximum', 60))).*
		FROM providers p, unnest('{full,fleet,broken}'::text[]) n WHERE p.name = 'roomy'`)
	d.exec("UPDATE providers SET reserves = true, machines_listed_at = prewarm_now() WHERE name = 'fleet'")
	d.exec(`INSERT INTO provider_machines (provider, machine, state, changed_at)
		SELECT 'fleet', 'm' || n, 'unused', prewarm_now() FROM generate_series(1, 5) n`)
	d.exec(`INSERT INTO inventories (provider, site, opened_at, reason, leased_until, due_at, full_at) VALUES ('broken', '', prewarm_now(), 'it lies', prewarm_now(), prewarm_now(), prewarm_now())`)
}

// pool makes one with everything that may bear on it.
func (d *drawing) pool(n int) truthPool {
	d.t.Helper()
	pool := truthPool{name: fmt.Sprintf("pool-%03d", n), preset: uuid.New()}
	template, version, key := uuid.New(), uuid.New(), uuid.New()
	provider := []string{"roomy", "roomy", "full", "fleet", "broken"}[d.random.IntN(5)]
	d.exec(`INSERT INTO templates SELECT (jsonb_populate_record(t, jsonb_build_object('id', $1::uuid, 'name', $2::text, 'provider', $3::text,
			'active_version_id', NULL, 'keep_outdated', $4::bool, 'boot_timeout_s', 600))).* FROM templates t WHERE name = 'quickstart'`,
		template, pool.name, provider, d.chance(40))
	d.exec(`INSERT INTO template_versions SELECT (jsonb_populate_record(v, jsonb_build_object('id', $1::uuid, 'template_id', $2::uuid))).*
		FROM template_versions v JOIN templates t ON t.active_version_id = v.id WHERE t.name = 'quickstart'`, version, template)
	d.exec("UPDATE templates SET active_version_id = $1, deprecated_at = CASE WHEN $2 THEN prewarm_now() END WHERE id = $3",
		version, d.chance(12), template)

	var instances any = d.random.IntN(6)
	if d.chance(8) {
		instances = nil
	}
	d.exec(`INSERT INTO presets (id, organization_id, template_id, name, pool_key, instances, created_at, updated_at)
		VALUES ($1, $2, $3, 'default', $4, $5, prewarm_now(), prewarm_now())`,
		pool.preset, auth.DefaultOrganizationID, template, key, instances)
	set := func(columns string, args ...any) {
		d.exec("UPDATE presets SET "+columns+" WHERE id = $1", append([]any{pool.preset}, args...)...)
	}
	pool.all = provider == "fleet" && instances != nil && d.chance(70)
	if pool.all {
		set("all_machines = true, instances = 0")
	}
	if instances != nil && d.chance(30) { // of the ranges one always applies, one never does but in a minute of leap days
		active := d.chance(60)
		cron := map[bool]string{true: "* * * * *", false: "0 0 29 2 *"}[active]
		set(`schedule = jsonb_build_object('timezone', 'UTC', 'ranges', jsonb_build_array(jsonb_build_object('cron', $2::text, 'instances', $3::int)))`,
			cron, d.random.IntN(6))
		pool.all = pool.all && !active
	}
	if instances != nil && !pool.all && d.chance(30) {
		if d.chance(50) {
			set("instances = 0")
		}
		set(`autosize = jsonb_build_object('mode', $2::text, 'min', 1, 'max', 4)`, []string{"apply", "apply", "forecast"}[d.random.IntN(3)])
		d.exec(`INSERT INTO preset_sizes (preset_id, size, forecast, recent, boost, reason, state, computed_at)
			VALUES ($1, $2, 0, 0, 1, '', '{}', prewarm_now() - $3 * interval '10 minutes')`,
			pool.preset, d.random.IntN(7), d.random.IntN(3))
	}
	if d.chance(25) {
		set("ttl_s = 36000, min_remaining_s = $2", d.random.IntN(2)*300)
	}
	if d.chance(20) {
		set("standby_running = '50%'")
	}
	if runners := instances != nil && d.chance(20); runners {
		set("forge_entity_id = $2, runner_labels = '{linux}', runner_maximum = $3", d.entity, 1+d.random.IntN(8))
		d.queue(pool, d.random.IntN(3), "queued", uuid.Nil)
	}
	if d.chance(20) {
		for _, scope := range []string{"preset", "template", "provider"} {
			target := map[string]string{"preset": pool.preset.String(), "template": template.String(), "provider": "broken"}[scope]
			if scope != "provider" && d.chance(60) {
				d.exec("INSERT INTO pauses VALUES ($1, $2, $3, $4, prewarm_now(), $5, prewarm_now() + $6 * interval '1 hour')", uuid.New(),
					scope, target, "of the "+scope, d.world.owner.UserID, d.random.IntN(3)-1)
			}
		}
	}
	if d.chance(25) {
		d.exec(`INSERT INTO preset_failures (preset_id, pool_key, streak, last_error, last_at, permanent, first_at)
			VALUES ($1, $2, $3, 'out of luck', prewarm_now(), $3, prewarm_now())`, pool.preset, key, 1+d.random.IntN(4))
	}
	for range d.random.IntN(4) {
		d.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at, cold)
			VALUES ($1, $2, $3, $4, 'prefer', 'waiting', prewarm_now() - $5 * interval '1 minute', prewarm_now() + interval '1 hour', $6)`,
			uuid.New(), auth.DefaultOrganizationID, pool.preset, d.world.owner.UserID, d.random.IntN(9), d.chance(40))
	}
	for range d.random.IntN(9) {
		d.workspace(pool, key)
	}
	pool.returning = d.put(pool, key, []string{"claimed", "claimed", "quarantined"}[d.random.IntN(3)])
	return pool
}

// workspace makes an unclaimed one of whatever kind.
func (d *drawing) workspace(pool truthPool, key uuid.UUID) {
	d.t.Helper()
	if d.chance(25) {
		key = uuid.New()
	}
	id := d.put(pool, key, []string{
		"provisioning", "starting", "ready", "ready", "ready", "standby", "draining", "deleting", "quarantined",
	}[d.random.IntN(9)])
	if d.chance(30) {
		minutes := []int{-5, 0, 4, 30, 300}[d.random.IntN(5)]
		d.exec("UPDATE workspaces SET expires_at = prewarm_now() + $2 * interval '1 minute' WHERE id = $1", id, minutes)
	}
	if d.chance(10) {
		d.exec(`INSERT INTO intents SELECT id, incarnation, 'drain', 'test', prewarm_now() FROM workspaces
			WHERE id = $1 AND state NOT IN ('quarantined', 'draining', 'deleting')`, id)
	}
	var runners bool
	require.NoError(d.t, d.world.store.Pool.QueryRow(context.Background(),
		"SELECT forge_entity_id IS NOT NULL FROM presets WHERE id = $1", pool.preset).Scan(&runners))
	if !runners {
		return
	}
	status := []string{"pending", "idle", "active"}[d.random.IntN(3)]
	d.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since, created_at)
		SELECT id, incarnation, preset_id, $2, name, $3::text::forge_runner_status, prewarm_now(), prewarm_now(), prewarm_now()
		FROM workspaces WHERE id = $1 AND state <> 'provisioning'`, id, d.entity, status)
	if d.chance(30) {
		d.queue(pool, 1, "in_progress", id)
	}
}

// queue makes jobs of a forge for the pool; those in progress are at a workspace.
func (d *drawing) queue(pool truthPool, n int, state string, at uuid.UUID) {
	d.t.Helper()
	for range n {
		d.jobs++
		d.exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, preset_id,
				workspace_id, incarnation, queued_at, seen_at, updated_at)
			SELECT gen_random_uuid(), $1, 'https://forge.invalid', $2, 1, $3, 'acme/tool', '{linux}', $4::text::forge_job_state, $5,
				nullif($6::uuid, '00000000-0000-0000-0000-000000000000'::uuid), CASE WHEN $4::text = 'in_progress' THEN 1 END,
				prewarm_now(), prewarm_now(), prewarm_now()`,
			auth.DefaultOrganizationID, d.jobs, d.entity, state, pool.preset, at)
	}
}

func (d *drawing) put(pool truthPool, key uuid.UUID, state string) uuid.UUID {
	d.t.Helper()
	id := uuid.New()
	d.exec(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
		  parameters, state, owner_id, claim_id, created_at, state_at, ready_at)
		SELECT $1, 'prebuild-' || $1::uuid, p.organization_id, p.template_id, t.active_version_id, p.id, $2, t.provider, '{}',
		  $3::text::workspace_state, $4, CASE WHEN $3::text = 'claimed' THEN gen_random_uuid() END,
		  prewarm_now() - $5 * interval '1 minute', prewarm_now(), prewarm_now()
		FROM presets p JOIN templates t ON t.id = p.template_id WHERE p.id = $6`,
		id, key, state, d.world.owner.UserID, d.random.IntN(12), pool.preset)
	return id
}
