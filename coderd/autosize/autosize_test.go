package autosize_test

import (
	"context"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/autosize"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type world struct {
	*coderdtest.World
	t      *testing.T
	nudged []uuid.UUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{World: coderdtest.NewWorld(t, sim.Behavior{}), t: t}
}

func (w *world) service() *autosize.Service {
	return autosize.New(autosize.Options{
		Store: w.Store, Clock: quartz.NewMock(w.t), Log: slogtest.Make(w.t, nil),
		Hints: hints.Local(hints.Ears{Nudge: func(ids ...uuid.UUID) { w.nudged = append(w.nudged, ids...) }}),
	})
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.Store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

// step does one, as if the last was long ago.
func (w *world) step(s *autosize.Service) autosize.Result {
	w.t.Helper()
	w.exec("UPDATE autosize_progress SET computed_at = computed_at - interval '1 hour'")
	r, err := s.Step(context.Background())
	require.NoError(w.t, err)
	require.False(w.t, r.Skipped)
	return r
}

// claims puts so many claims of a pool into the past, of which so many hit.
func (w *world) claims(template string, ago time.Duration, n, hits int) {
	w.t.Helper()
	w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation, created_at)
		SELECT gen_random_uuid(), p.organization_id, p.id, $2, 'require', CASE WHEN i <= $5 THEN 'released' ELSE 'missed' END::claim_state,
		       CASE WHEN i <= $5 THEN 'hit' ELSE 'miss' END::claim_outcome, CASE WHEN i <= $5 THEN gen_random_uuid() END,
		       CASE WHEN i <= $5 THEN 1 END, prewarm_now() - $3::double precision * interval '1 second'
		FROM presets p, generate_series(1, $4::int) i WHERE p.id = $1`,
		w.Preset(w.t, template), w.Owner, ago.Seconds(), n, hits)
}

func (w *world) pool(name, autosize string) {
	w.Apply(w.t, `
templates:
  - name: `+name+`
    provider: sim
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 2, autosize: `+autosize+`}}]
`)
}

func (w *world) size(template string) (size int) {
	w.t.Helper()
	require.NoError(w.t, w.Store.Pool.QueryRow(context.Background(), "SELECT size FROM preset_sizes WHERE preset_id = $1",
		w.Preset(w.t, template)).Scan(&size))
	return size
}

func (w *world) counted(template string) (claims, hits int) {
	w.t.Helper()
	require.NoError(w.t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT coalesce(sum(claims), 0)::int, coalesce(sum(hits), 0)::int FROM claim_history WHERE preset_id = $1",
		w.Preset(w.t, template)).Scan(&claims, &hits))
	return claims, hits
}

// A request for several workspaces is as many claims for autosize, and one for the hit rate, whether it hit or not.
func TestCounts_severalAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("busy", "{mode: forecast, max: 40}")
	w.claims("busy", time.Minute, 3, 2)
	for _, outcome := range []string{"hit", "waited"} {
		w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation, created_at, group_id)
			SELECT CASE WHEN i = 1 THEN g.id ELSE gen_random_uuid() END, p.organization_id, p.id, $2, 'prefer', 'released', $3::claim_outcome,
			       gen_random_uuid(), 1, prewarm_now() - interval '1 minute', g.id
			FROM presets p, (SELECT gen_random_uuid() AS id) g, generate_series(1, 5) i WHERE p.id = $1`,
			w.Preset(t, "busy"), w.Owner, outcome)
	}
	w.step(w.service())
	var claims, hits, requests, requestHits int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT sum(claims), sum(hits), sum(requests), sum(request_hits) FROM claim_history WHERE preset_id = $1",
		w.Preset(t, "busy")).Scan(&claims, &hits, &requests, &requestHits))
	require.Equal(t, []int{13, 7, 5, 3}, []int{claims, hits, requests, requestHits})
}

// Claims are counted once, however often they are looked at, also by replicas that know nothing of each other, and after a
// time in which nobody counted.
func TestCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("busy", "{mode: forecast, max: 40}")
	w.claims("busy", 20*24*time.Hour, 5, 4)
	w.claims("busy", 40*24*time.Hour, 5, 4) // too long ago
	w.claims("busy", time.Minute, 3, 1)
	first, second := w.service(), w.service()
	w.step(first)
	claims, hits := w.counted("busy")
	assert.Equal(t, []int{8, 5}, []int{claims, hits})

	w.claims("busy", time.Second, 2, 2)
	w.step(second)
	w.step(first)
	claims, hits = w.counted("busy")
	assert.Equal(t, []int{10, 7}, []int{claims, hits})

	w.exec("UPDATE autosize_progress SET counted_through = counted_through - interval '5 hours'")
	w.claims("busy", 4*time.Hour, 6, 6)
	w.step(second)
	claims, hits = w.counted("busy")
	assert.Equal(t, []int{16, 13}, []int{claims, hits})

	// Counting goes on from the middle of a bucket, and still counts all of it.
	bucket := time.Now().Add(-10 * time.Hour).Truncate(sizing.BucketLength)
	w.claims("busy", time.Since(bucket.Add(time.Minute)), 4, 4)
	w.claims("busy", time.Since(bucket.Add(4*time.Minute)), 3, 3)
	for range 2 {
		w.exec("UPDATE autosize_progress SET counted_through = $1", bucket.Add(18*time.Minute))
		w.step(second)
		claims, hits = w.counted("busy")
		assert.Equal(t, []int{23, 20}, []int{claims, hits})
	}
}

// One step at a time, and not more often than needed, however many replicas wake.
func TestOneReplicaAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("busy", "{mode: apply, max: 40}")
	w.step(w.service())
	r, err := w.service().Step(context.Background())
	require.NoError(t, err)
	assert.True(t, r.Skipped, "another replica was at it a moment ago")

	tx, err := w.Store.Pool.Begin(context.Background())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	w.exec("UPDATE autosize_progress SET computed_at = NULL")
	_, err = tx.Exec(context.Background(), "SELECT pg_advisory_xact_lock(1886545271, 2)")
	require.NoError(t, err)
	r, err = w.service().Step(context.Background())
	require.NoError(t, err)
	assert.True(t, r.Skipped, "another replica is at it")
}

// A size follows the claims, within its bounds; only one that is applied is worth a pass.
func TestSizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("applied", "{mode: apply, min: 1, max: 400}")
	w.pool("bounded", "{mode: apply, min: 1, max: 4}")
	w.pool("shown", "{mode: forecast, max: 400}")
	w.pool("off", "{mode: off, max: 400}")
	for _, name := range []string{"applied", "bounded", "shown", "off"} {
		w.claims(name, time.Hour, 1, 1) // since when it is known
		w.claims(name, 12*time.Minute, 20, 20)
	}
	s := w.service()
	r := w.step(s)
	assert.Equal(t, autosize.Result{Sized: 3, Changed: 3}, r)
	assert.Len(t, w.nudged, 2)
	assert.Greater(t, w.size("applied"), 5)
	assert.Equal(t, w.size("applied"), w.size("shown"))
	assert.Equal(t, 4, w.size("bounded"))

	before := w.size("applied")
	w.claims("applied", 0, 30, 0)
	w.step(s)
	assert.Greater(t, w.size("applied"), before, "what is new counts, beside what was read before")
}

// A pool that has asked for more than its maximum for an hour is what people are to be told of, as long as the size is fresh.
func TestUnattainable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("low", "{mode: apply, min: 1, max: 2}")
	w.pool("high", "{mode: apply, min: 1, max: 400}")
	w.pool("shown", "{mode: forecast, min: 1, max: 2}")
	told := func() map[string]string {
		w.t.Helper()
		snap, err := alerts.NewReader(w.Store, quartz.NewMock(t), w.Providers.Refuses).Read(context.Background())
		require.NoError(t, err)
		said := map[string]string{}
		for _, p := range snap.Presets {
			if p.Unattainable != "" {
				said[p.Template] = p.Unattainable
			}
		}
		return said
	}
	for _, name := range []string{"low", "high", "shown"} {
		w.claims(name, time.Hour, 1, 1)
		w.claims(name, 5*time.Minute, 20, 20)
	}
	w.step(w.service())
	require.Empty(t, told(), "at its maximum, for a moment")
	w.exec(`UPDATE preset_sizes SET state = jsonb_set(state, '{Shortfall,Since}', to_jsonb('2026-06-01T02:15:00Z'::text))
		WHERE state #> '{Shortfall,Since}' IS NOT NULL`)
	w.step(w.service())
	require.Equal(t, map[string]string{"low": "claims ask for more than the maximum of 2, since 2026-06-01 02:15 UTC"}, told())
	w.exec("UPDATE preset_sizes SET computed_at = computed_at - interval '1 hour'")
	require.Empty(t, told(), "nobody knows")
}

// Jobs that a forge holds back are announced: the pool has as many prebuilds before they are queued, within its maximum, and for
// an hour, as they may be held back for days.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("runners", "{mode: apply, max: 40}")
	w.pool("others", "{mode: apply, max: 40}")
	w.exec(`INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
		SELECT $1, organization_id, 'acme', 'gitea', 'https://gitea.example', 'token', '', 'test', now(), now() FROM presets LIMIT 1`, w.Owner)
	w.exec(`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by, created_at, updated_at)
		SELECT id, organization_id, name, 'organization', 'acme', id, 'x', 'test', now(), now() FROM forge_credentials`)
	w.exec("UPDATE presets SET forge_entity_id = $2, runner_labels = '{linux}' WHERE id = $1", w.Preset(t, "runners"), w.Owner)
	jobs := func(template, state, ago string, n int) {
		w.exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, preset_id,
			queued_at, seen_at, updated_at)
			SELECT gen_random_uuid(), e.organization_id, 'https://gitea.example', (random() * 1e15)::bigint, 1, e.id, 'acme/shop', '{linux}',
			       $2::text::forge_job_state, $1, prewarm_now() - $3::text::interval, now(), now()
			FROM forge_entities e, generate_series(1, $4::int)`, w.Preset(t, template), state, ago, n)
	}
	size := func() (size int, reason string) {
		w.step(w.service())
		require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT size, reason FROM preset_sizes WHERE preset_id = $1",
			w.Preset(t, "runners")).Scan(&size, &reason))
		return size, reason
	}
	jobs("runners", "queued", "1 minute", 30) // a pass adds these itself
	jobs("runners", "waiting", "2 hours", 30)
	jobs("others", "waiting", "1 minute", 30)
	few, reason := size()
	require.Less(t, few, 12)
	require.NotEqual(t, "announced", reason)
	jobs("runners", "waiting", "1 minute", 12)
	n, reason := size()
	require.Equal(t, []any{12, "announced"}, []any{n, reason})
	jobs("runners", "waiting", "1 minute", 100)
	n, _ = size()
	require.Equal(t, 40, n, "the maximum")
	w.exec("UPDATE forge_jobs SET state = 'completed', completed_at = now()")
	n, reason = size()
	require.Equal(t, few, n, "nothing of it is learnt")
	require.NotEqual(t, "announced", reason)
	require.Less(t, w.size("others"), 12, "no runners")
}

// A pass takes what autosize computed for the instances, where it is applied and fresh, within bounds that may be newer.
func TestPassTakesTheSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("applied", "{mode: apply, max: 40}")
	w.pool("shown", "{mode: forecast, max: 40}")
	w.claims("applied", time.Minute, 20, 20)
	w.claims("shown", time.Minute, 20, 20)
	w.step(w.service())
	size := w.size("applied")
	require.Greater(t, size, 2)

	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	settled := func(template string, n int) func() bool {
		return func() bool {
			return w.Warm(t, template) == n && w.Count(t, template, "provisioning", "starting", "draining", "deleting") == 0
		}
	}
	coderdtest.Eventually(t, "the computed size", settled("applied", size))
	coderdtest.Eventually(t, "a forecast changes nothing", settled("shown", 2))
	view := func() (desired int) {
		rows, err := viewsdb.New(w.Store).SizingView(context.Background(), w.Preset(t, "applied"))
		require.NoError(t, err)
		return int(rows.Size)
	}
	assert.Equal(t, size, view())

	w.pool("applied", "{mode: apply, max: 3}")
	coderdtest.Eventually(t, "the new maximum, before anything is computed", settled("applied", 3))

	w.exec("UPDATE preset_sizes SET computed_at = computed_at - interval '1 hour'")
	coderdtest.Eventually(t, "the instances, where nothing is fresh", settled("applied", 2))
	r.Stop()

	// What those passes built is how long a prebuild takes.
	w.step(w.service())
	var provisions int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT sum(provisions) FROM claim_history").Scan(&provisions))
	assert.GreaterOrEqual(t, provisions, size+2)
}

func TestAdviceAndReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("busy", "{mode: forecast, min: 1, max: 40, target: 95%}")
	w.exec("UPDATE presets SET created_at = created_at - interval '30 days'")
	for i := range 60 { // five at once every two hours, for five days
		w.claims("busy", time.Duration(i+1)*2*time.Hour, 5, 2)
	}
	s, preset := w.service(), w.Preset(t, "busy")
	a, err := s.Advise(context.Background(), preset, 14, 0)
	require.NoError(t, err)
	assert.Equal(t, []int{300, 120, 5}, []int{len(a.Past.Claims), a.Past.Hits, a.Size}, "a size of five hits all: %+v", a)
	assert.InDelta(t, 0.95, a.Target, 1e-9, "the preset's own")
	assert.InDelta(t, 1, a.Replayed.HitRate(), 0)

	r, err := s.Replay(context.Background(), preset, 14, 3, sizing.MissCold)
	require.NoError(t, err)
	assert.InDelta(t, 0.6, r.Static.HitRate(), 1e-9)
	assert.Less(t, r.Static.Idle, a.Replayed.Idle)

	few, err := s.Advise(context.Background(), preset, 1, 0.5)
	require.NoError(t, err)
	assert.Len(t, few.Past.Claims, 60-5, "the last of them is a day old, and out")
	assert.NotEqual(t, int(few.View.Instances), few.Size)

	w.pool("new", "{mode: forecast, min: 1, max: 40, target: 95%}")
	w.exec("UPDATE presets SET created_at = created_at - interval '1 hour' WHERE id = $1", w.Preset(t, "new"))
	w.claims("new", 10*time.Minute, 5, 2)
	early, err := s.Advise(context.Background(), w.Preset(t, "new"), 14, 0)
	require.NoError(t, err)
	assert.Len(t, early.Past.Claims, 5)
	assert.Equal(t, int(early.View.Instances), early.Size, "an hour says nothing about a day")
}

// How long a prebuild takes is known as soon as there is one, also before it was counted.
func TestProvisionTimeBeforeTheCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pool("new", "{mode: off, max: 40}")
	s := w.service()
	provision := func() time.Duration {
		a, err := s.Advise(context.Background(), w.Preset(t, "new"), 14, 0)
		require.NoError(t, err)
		return a.Past.Provision
	}
	require.Equal(t, sizing.DefaultProvisionTime, provision(), "nobody can know")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "prebuilds", func() bool { return w.Warm(t, "new") == 2 })
	r.Stop()
	w.exec("UPDATE workspaces SET created_at = ready_at - interval '42 seconds'")
	require.Equal(t, 42*time.Second, provision())
}
