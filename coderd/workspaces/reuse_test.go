package workspaces_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// more puts n more workspaces of the pool beside the one that is there.
func (b *bench) more(n int, state, values string) {
	b.t.Helper()
	b.exec(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
		  parameters, state, owner_id, claim_id, created_at, state_at, ready_at, expires_at)
		SELECT gen_random_uuid(), 'more-' || gen_random_uuid(), p.organization_id, p.template_id, t.active_version_id, p.id,
		  p.pool_key, t.provider, '{}', $2::text::workspace_state, $3, CASE WHEN $2 = 'claimed' THEN gen_random_uuid() END,
		  now(), now(), now(), nullif($4, '')::timestamptz
		FROM presets p JOIN templates t ON t.id = p.template_id, generate_series(1, $1)`, n, state, b.Owner, values)
}

var claimed = situation{state: "claimed", providerID: "p"}

// A released workspace comes back only where its pool has room for it: else it goes, as without reuse.
func TestReuse_onlyWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name string
		set  func()
		want string
	}{
		{"short of one", func() {}, "starting"},
		{"full", func() { b.more(1, "ready", "") }, "draining"},
		{"full of what is still starting", func() { b.more(1, "provisioning", "") }, "draining"},
		{"what is there expired", func() { b.more(1, "ready", "2001-01-01") }, "starting"},
		{"what is there goes", func() {
			b.more(1, "ready", "")
			b.exec("INSERT INTO intents SELECT id, incarnation, 'drain', 'r', now() FROM workspaces WHERE name LIKE 'more-%'")
		}, "starting"},
		{"full, but somebody waits", func() {
			b.more(1, "ready", "")
			b.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at)
				SELECT $1, organization_id, id, $2, 'prefer', 'waiting', now(), now() + interval '1 hour' FROM presets`, uuid.New(), b.Owner)
		}, "starting"},
		{"less desired by the last pass", func() {
			b.exec(`INSERT INTO preset_status SELECT id, '{"desired": 0}', '{}', '', '', 1, now() FROM presets`)
		}, "draining"},
		{"a pool of all machines", func() {
			b.more(1, "ready", "")
			b.exec("UPDATE presets SET all_machines = true, instances = 0")
			b.exec(`INSERT INTO preset_status SELECT id, '{"desired": 1}', '{}', '', '', 1, now() FROM presets`)
		}, "starting"},
		{"a pool of all machines, but for the hours of its schedule", func() {
			b.more(1, "ready", "")
			b.exec(`UPDATE presets SET all_machines = true, instances = 0, schedule = '{}'`)
			b.exec(`INSERT INTO preset_status SELECT id, '{"desired": 1}', '{"creates": [{"label": "desired", "rule": "C9"}]}', '', '',
				1, now() FROM presets`)
		}, "draining"},
		{"autosize has more than instances", func() {
			b.more(1, "ready", "")
			b.exec(`UPDATE presets SET autosize = '{"mode": "apply", "min": 0, "max": 9}'`)
			b.exec(`INSERT INTO preset_sizes (preset_id, size, forecast, recent, boost, reason, state, computed_at)
				SELECT id, 2, 0, 0, 1, '', '{}', now() FROM presets`)
		}, "starting"},
		{"of an older version", func() { b.exec("UPDATE workspaces SET pool_key = $1", uuid.New()) }, "draining"},
		{"template deprecated", func() { b.exec("UPDATE templates SET deprecated_at = now()") }, "draining"},
		{"preset deleted", func() { b.exec("UPDATE presets SET deleted_at = now()") }, "draining"},
		{"paused", func() {
			b.exec("INSERT INTO pauses VALUES ($1, 'provider', 'sim', 'r', now(), $2)", uuid.New(), b.Owner)
		}, "draining"},
		{"beyond the maximum", func() {
			b.more(1, "claimed", "")
			b.exec("UPDATE providers SET maximum = 1 WHERE name = 'sim'")
		}, "draining"},
		{"at the maximum", func() { b.exec("UPDATE providers SET maximum = 1 WHERE name = 'sim'") }, "starting"},
		{"used often enough", func() { b.exec("UPDATE templates SET max_uses = 1") }, "draining"},
	} {
		b.put(claimed, false, true)
		c.set()
		require.NoError(t, release(context.Background(), b, b.ws), c.name)
		require.Equal(t, c.want, b.look().State, c.name)
		b.exec(`DELETE FROM pauses; DELETE FROM preset_status; UPDATE providers SET maximum = 0;
			UPDATE templates SET deprecated_at = NULL; DELETE FROM preset_sizes;
			UPDATE presets SET deleted_at = NULL, all_machines = false, instances = 1, schedule = NULL, autosize = NULL`)
	}
}

// I3: of many releases and retries at once, only as many come back as the pool has room for.
func TestReuse_manyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(claimed, false, true)
	b.exec("UPDATE presets SET instances = 3")
	b.more(9, "claimed", "")
	b.more(2, "quarantined", "")
	rows, err := b.Store.Pool.Query(context.Background(), "SELECT id, state FROM workspaces")
	require.NoError(t, err)
	var all sync.WaitGroup
	errs := make(chan error, 20)
	for rows.Next() {
		var id uuid.UUID
		var state string
		require.NoError(t, rows.Scan(&id, &state))
		all.Go(func() {
			var err error
			if state == "claimed" {
				_, err = b.writer.Release(context.Background(), b.person(), id)
			} else if _, err = b.writer.Retry(context.Background(), b.person(), id); err != nil {
				var full *workspaces.NoRoom
				if errors.As(err, &full) || errors.Is(err, workspaces.ErrLost) { // lost: the fence could not be had in time
					err = nil
				}
			}
			errs <- err
		})
	}
	require.NoError(t, rows.Err())
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	back := b.Count(t, "a", "starting", "provisioning")
	require.LessOrEqual(t, back, 3, "I3")
	require.Positive(t, back)
	require.Equal(t, 12-back, b.Count(t, "a", "draining", "quarantined"))
}

// I3 against the passes: a pass that overlaps with a release plans on what that left, and the other way round.
func TestReuse_besidePasses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	template := b.Apply(t, `
templates:
  - name: a
    provider: sim
    reuse: true
    max_uses: 1000
    spec: {create_latency: 0s-2ns}
    presets: [{name: default, prebuilds: {instances: 3}}]
`)
	r := b.Start(t, coderdtest.Config{NoWork: true})
	b.put(claimed, false, true)
	b.more(30, "claimed", "")
	b.exec(`UPDATE workspaces w SET pool_key = p.pool_key, incarnation = 2 FROM presets p`)
	ctx := context.Background()
	var all sync.WaitGroup
	for _, id := range ids(t, b) { // not those that a pass has made by now
		all.Go(func() {
			r.Reconciler.Nudge(template...)
			_, err := r.Writer.Release(ctx, b.person(), id)
			require.NoError(t, err)
			r.Reconciler.Nudge(template...)
		})
	}
	all.Wait()
	coderdtest.Eventually(t, "the pool is full", func() bool { return pooled(t, b) == 3 })
	var most int
	require.NoError(t, b.Store.Pool.QueryRow(ctx, `WITH steps AS (
		SELECT h.id, CASE WHEN h.to_state IN ('provisioning', 'starting', 'ready') THEN 1 ELSE 0 END
		           - CASE WHEN h.from_state IN ('provisioning', 'starting', 'ready') THEN 1 ELSE 0 END AS step
		FROM workspace_history h)
		SELECT max(n) FROM (SELECT sum(step) OVER (ORDER BY id) AS n FROM steps) s`).Scan(&most))
	require.Equal(t, 3, most, "I3: never more than desired")
}

func ids(t *testing.T, b *bench) []uuid.UUID {
	t.Helper()
	rows, err := b.Store.Pool.Query(context.Background(), "SELECT id FROM workspaces WHERE state = 'claimed'")
	require.NoError(t, err)
	defer rows.Close()
	var list []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		require.NoError(t, rows.Scan(&id))
		list = append(list, id)
	}
	return list
}

func pooled(t *testing.T, b *bench) int {
	t.Helper()
	return b.Count(t, "a", "provisioning", "starting", "ready")
}

// I1: a person who means an earlier incarnation, or an earlier claim, touches nothing of who has the workspace now.
func TestReuse_earlierIncarnationIsNotMeant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(claimed, false, true)
	before := b.dump()
	a := b.person()
	a.Incarnation = 7
	_, err := b.writer.Release(context.Background(), a, b.ws.WorkspaceID)
	require.ErrorIs(t, err, workspaces.ErrNotClaimed)
	_, err = b.writer.Delete(context.Background(), a, b.ws.WorkspaceID, true)
	require.ErrorIs(t, err, workspaces.ErrLost)
	require.Equal(t, before, b.dump())
}

// Of many that fail at once, no more are kept than the template says, and all of them are one failure in the streak.
func TestKeepFailures_manyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := context.Background()
	b.put(situations[0], true, false)
	b.exec("UPDATE templates SET keep_failures = 2")
	b.more(11, "provisioning", "")
	b.exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, attempt, due_at, created_at)
		SELECT gen_random_uuid(), id, 1, 'create', 'sim', 'running', 1, now() + interval '1 hour', now()
		FROM workspaces WHERE name LIKE 'more-%'`)
	rows, err := b.Store.Pool.Query(ctx, "SELECT id, workspace_id FROM jobs")
	require.NoError(t, err)
	var all sync.WaitGroup
	kept := make(chan bool, 12)
	for rows.Next() {
		l := workspaces.Lease{Attempt: 1, Incarnation: 1}
		require.NoError(t, rows.Scan(&l.JobID, &l.WorkspaceID))
		all.Go(func() {
			_, k, err := b.writer.Failed(ctx, l, workspaces.Failure{Fault: "outage", PresetID: b.preset})
			kept <- k
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(kept)
	n := 0
	for k := range kept {
		if k {
			n++
		}
	}
	require.Equal(t, 2, n)
	require.Equal(t, 2, b.Count(t, "a", string(database.WorkspaceStateQuarantined)))
	require.Equal(t, 10, b.Count(t, "a", "deleting"))
	require.Equal(t, 1, b.look().Streak, "they were all begun before the first of them failed")
}
