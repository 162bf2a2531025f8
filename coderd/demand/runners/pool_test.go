package runners_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// oneReady is a ready workspace of the pool.
func (w *world) oneReady() ws {
	w.t.Helper()
	id := uuid.MustParse(w.text("SELECT id FROM workspaces WHERE state = 'ready' ORDER BY ready_at LIMIT 1"))
	return ws{id, w.text("SELECT name FROM workspaces WHERE id = $1", id)}
}

// The life of a runner: ready once its forge has seen it, claimed by the job that it is given, released when that is over,
// unregistered, deleted, and replaced.
func TestRunnerLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.run(true)
	eventually(t, "a warm pool", func() bool { return w.Warm(t, "a") == 2 })
	require.Len(t, w.cloud.names(), 2)
	it := w.oneReady()
	w.cloud.set(it.name, forge.Active)
	job := w.job(it.name, "in_progress")
	w.service.SettleSoon()
	eventually(t, "the claim", func() bool { return w.state(it.id) == "claimed" })
	eventually(t, "another in its place", func() bool { return w.Warm(t, "a") == 2 })
	w.cloud.set(it.name, "") // ephemeral: it goes by itself
	w.complete(job)
	w.service.SettleSoon()
	eventually(t, "the end", func() bool { return w.state(it.id) == "deleted" })
	require.Equal(t, "released", w.text("SELECT state FROM claims WHERE workspace_id = $1", it.id))
	require.NotEmpty(t, w.text("SELECT removed_at FROM forge_runners WHERE workspace_id = $1", it.id))
	require.Equal(t, "provisioning starting ready claimed draining deleting deleted", w.text(
		"SELECT string_agg(to_state::text, ' ' ORDER BY at, id) FROM workspace_history WHERE workspace_id = $1", it.id))
}

// A runner that has a job is never deleted: not as surplus, not by a person, not while the forge is away; and goes at once
// when its job is over.
func TestBusyIsNeverDeleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	var surplus atomic.Pointer[ws]
	w.cloud.removing = func() {
		if it := surplus.Swap(nil); it != nil {
			w.cloud.set(it.name, forge.Active)
		}
	}
	w.run(true)
	eventually(t, "a warm pool", func() bool { return w.Warm(t, "a") == 1 })
	it := w.oneReady()
	// The forge gives it a job at the moment at which it is to be removed as surplus: any earlier, and it might be claimed.
	surplus.Store(&it)
	_, err := w.writer.Drain(ctx, w.Store, it.id, 1, "extraneous")
	require.NoError(t, err)
	eventually(t, "the veto", func() bool {
		return w.text("SELECT last_error FROM jobs WHERE workspace_id = $1 AND kind = 'drain'", it.id) == "busy: the forge says a job runs"
	})
	job := w.job(it.name, "in_progress")
	w.cloud.failing(errors.New("502 Bad Gateway"))
	w.exec("UPDATE jobs SET due_at = now() WHERE workspace_id = $1 AND kind = 'drain'", it.id)
	eventually(t, "the veto by what is known", func() bool {
		return w.text("SELECT last_error FROM jobs WHERE workspace_id = $1 AND kind = 'drain'", it.id) ==
			"busy: job build of acme/shop is in progress"
	})
	require.Equal(t, "draining", w.state(it.id))
	w.cloud.failing(nil)
	w.cloud.set(it.name, "")
	w.complete(job)
	w.service.SettleSoon()
	eventually(t, "the end", func() bool { return w.state(it.id) == "deleted" })
}

// While the forge is away what is warm stays warm, and what is to go waits; then all comes to its end.
func TestForgeAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 3)
	w.run(true)
	eventually(t, "a warm pool", func() bool { return w.Warm(t, "a") == 3 })
	w.cloud.failing(errors.New("connection refused"))
	it := w.oneReady()
	_, err := w.writer.Drain(ctx, w.Store, it.id, 1, "extraneous")
	require.NoError(t, err)
	asked := w.cloud.listings()
	eventually(t, "rounds, and a drain, that fail", func() bool {
		return w.cloud.listings() > asked+2 && strings.Contains(
			w.text("SELECT last_error FROM jobs WHERE workspace_id = $1 AND kind = 'drain'", it.id), "connection refused")
	})
	require.Equal(t, 2, w.Warm(t, "a"))
	require.Equal(t, "draining", w.state(it.id))
	require.Equal(t, "0", w.text("SELECT count(*) FROM workspace_history WHERE to_state IN ('deleting', 'claimed')"))
	w.cloud.failing(nil)
	eventually(t, "all as it should be", func() bool { return w.Warm(t, "a") == 3 && w.state(it.id) == "deleted" })
}

// A3: a runner that does not register in time is replaced, and counts as a failure; but only when the forge was listed in full
// after its time was over.
func TestNeverRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.exec("UPDATE presets SET runner_registration_timeout_s = 2")
	w.cloud.failing(errors.New("connection refused"))
	w.run(false)
	eventually(t, "its time to be over", func() bool {
		return w.text("SELECT count(*) FROM jobs WHERE kind = 'probe' AND last_error LIKE 'its time to register is over%'") == "1"
	})
	require.Equal(t, 1, w.Count(t, "a", "starting"))
	require.Equal(t, "0", w.text("SELECT count(*) FROM preset_failures"))
	w.cloud.failing(nil)
	eventually(t, "the failure", func() bool {
		return w.text("SELECT max(last_error) FROM preset_failures") == "registration timeout of 2s: never registered at the forge"
	})
}

// A3: the time to register is apart from the time to boot, of which nothing is left here, and begins when the workspace is up.
func TestNeverRegistered_isNotTheBootTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.exec("UPDATE templates SET boot_timeout_s = 1")
	w.run(false)
	over := "SELECT j.attempt FROM jobs j JOIN workspaces w ON w.id = j.workspace_id WHERE j.kind = 'probe' " +
		"AND w.state_at < now() - interval '1 second' AND j.last_error = 'never registered at the forge'"
	var first string
	eventually(t, "its time to boot to be over", func() bool { first = w.text(over); return first != "" })
	eventually(t, "another look at it", func() bool { return w.text(over) > first })
	require.Equal(t, 1, w.Count(t, "a", "starting"))
	require.Equal(t, "0", w.text("SELECT count(*) FROM preset_failures"))
	w.cloud.set(w.text("SELECT name FROM workspaces"), forge.Idle)
	eventually(t, "it to be ready", func() bool { return w.Warm(t, "a") == 1 })
}

// A3: the log says when a runner was up, how long it was waited for, and for how long it might have been.
func TestNeverRegistered_log(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.exec("UPDATE presets SET runner_registration_timeout_s = 1")
	w.run(false)
	var line map[string]any
	eventually(t, "the line", func() bool { line = w.log.fields("runner did not register"); return line != nil })
	require.Equal(t, time.Second, line["registration_timeout"])
	require.GreaterOrEqual(t, line["waited"], time.Second)
	up, ok := line["up_at"].(time.Time)
	require.True(t, ok)
	require.False(t, up.IsZero())
	listed, ok := line["forge_listed_at"].(time.Time)
	require.True(t, ok)
	require.False(t, listed.Before(up.Add(time.Second)), "the forge was heard of when the time was over")
	require.Equal(t, w.text("SELECT name FROM workspaces WHERE id = $1", line["workspace_id"]), line["workspace"])
}

// A runner that ends before its forge has seen it is a failure too, at once.
func TestEndedBeforeItRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run(false)
	eventually(t, "a starting one", func() bool {
		return w.text("SELECT count(*) FROM forge_runners WHERE handed_out_at IS NOT NULL") != "0"
	})
	w.exec("UPDATE forge_runners SET finished_at = now()")
	eventually(t, "the failure", func() bool {
		return w.text("SELECT max(last_error) FROM preset_failures") == "its runner ended before it was seen at the forge"
	})
}

// That a runner ended without a job is not said by a round that began before that, however late the round ended, nor while
// something that the forge told is yet to be handled.
func TestEnded_notAllIsHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	it := w.put(database.WorkspaceStateStarting, uuid.MustParse("00000000-0000-4000-8000-000000000001"))
	w.exec("UPDATE forge_runners SET registered_at = NULL, finished_at = now() - interval '1 minute'")
	w.exec("INSERT INTO forge_status (entity_id) VALUES ($1)", w.entity)
	idled := func() bool {
		row, err := lifecycledb.New(w.Store).JobForWork(t.Context(), it.id)
		require.NoError(t, err)
		require.True(t, row.RunnerFinished)
		return row.RunnerIdled
	}
	round := func(began, ended string) {
		w.exec("UPDATE forge_status SET runners_listed_at = now() - $1::interval, succeeded_at = now() - $2::interval", began, ended)
	}
	require.False(t, idled(), "never asked")
	round("52 s", "1 s")
	require.False(t, idled(), "asked too early")
	round("40 s", "50 s")
	require.False(t, idled(), "it goes on")
	round("40 s", "30 s")
	require.True(t, idled())
	w.exec(`INSERT INTO forge_deliveries (entity_id, delivery_id, event, body, received_at, due_at)
		VALUES ($1, 'late', 'workflow_job', '{}', now(), now()), (gen_random_uuid(), 'of another', 'workflow_job', '{}', now(), now())`, w.entity)
	require.False(t, idled(), "a delivery is yet to be handled")
	w.exec("UPDATE forge_deliveries SET handled_at = now() WHERE delivery_id = 'late'")
	require.True(t, idled())
}

// A job so short that no listing ever showed its runner, and none of whose events but the last was heard.
func TestOnlyCompletedWasHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run(false)
	eventually(t, "a starting one", func() bool { return w.Count(t, "a", "starting") == 1 })
	id := uuid.MustParse(w.text("SELECT id FROM workspaces WHERE state = 'starting'"))
	eventually(t, "its configuration", func() bool { return len(w.cloud.names()) == 1 })
	name := w.text("SELECT name FROM workspaces WHERE id = $1", id)
	w.cloud.set(name, "")
	w.job(name, "completed")
	w.service.SettleSoon()
	eventually(t, "the end", func() bool { return w.state(id) == "deleted" })
	require.Equal(t, "0", w.text("SELECT count(*) FROM claims"))
	require.Equal(t, "0", w.text("SELECT count(*) FROM preset_failures"))
}

// A runner that is given a job before any listing showed it is claimed as soon as it is ready, not at the next usual time.
func TestBusyWhenFirstSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.service.Pace.Settle = time.Hour
	w.service.Pace.Fresh, w.service.Pace.Awaited, w.service.Pace.Idle = time.Hour, time.Hour, time.Hour
	w.run(false)
	eventually(t, "its configuration", func() bool { return len(w.cloud.names()) == 1 })
	name := w.cloud.names()[0]
	id := uuid.MustParse(w.text("SELECT id FROM workspaces WHERE name = $1", name))
	w.job(name, "in_progress")
	w.service.SettleSoon()
	eventually(t, "the claim", func() bool { return w.state(id) == "claimed" })
	require.Equal(t, "waited", w.text("SELECT outcome FROM claims WHERE workspace_id = $1", id))
}

// A job that is over before any listing showed its runner, and whose webhooks are late, is no failure of the runner's.
func TestEndedBeforeItWasHeardOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run(false)
	eventually(t, "its configuration", func() bool {
		return w.text("SELECT count(*) FROM forge_runners WHERE handed_out_at IS NOT NULL") == "1"
	})
	name := w.cloud.names()[0]
	id := uuid.MustParse(w.text("SELECT id FROM workspaces WHERE name = $1", name))
	w.cloud.set(name, "")
	require.NoError(t, w.service.Report(context.Background(), id, 1, runners.SaidFinished))
	asked := w.cloud.listings()
	eventually(t, "probes and rounds after its end", func() bool {
		return w.cloud.listings() > asked+5 && w.text("SELECT attempt FROM jobs WHERE workspace_id = $1 AND kind = 'probe'", id) > "1"
	})
	w.job(name, "completed")
	w.service.SettleSoon()
	eventually(t, "the end", func() bool { return w.state(id) == "deleted" })
	require.Equal(t, "0", w.text("SELECT count(*) FROM preset_failures"))
}
