package runners_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// P7: what comes of unregistering, by what the forge and our rows say.
func TestDeregister(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world, it ws)
		want    runners.Verdict // Wait: at least
		fail    error
		removed bool // from the forge
	}{
		"idle":             {want: runners.Verdict{Done: true, Why: "unregistered"}, removed: true},
		"its number known": {prepare: func(w *world, _ ws) { w.exec("UPDATE forge_runners SET runner_id = 1") }, want: runners.Verdict{Done: true, Why: "unregistered"}, removed: true},
		"not found": {
			prepare: func(w *world, it ws) { w.cloud.set(it.name, "") }, want: runners.Verdict{Done: true, Why: "unregistered"},
		},
		"not found by its number": {
			prepare: func(w *world, it ws) { w.exec("UPDATE forge_runners SET runner_id = 77"); w.cloud.set(it.name, "") },
			want:    runners.Verdict{Done: true, Why: "unregistered"},
		},
		"never asked for": {
			prepare: func(w *world, _ ws) {
				w.exec("UPDATE forge_runners SET asked_at = NULL")
				w.cloud.failing(errors.New("the forge is not to be asked"))
			},
			want: runners.Verdict{Done: true, Why: "never registered"},
		},
		"busy": {
			prepare: func(w *world, it ws) { w.cloud.set(it.name, forge.Active) },
			want:    runners.Verdict{Busy: true, Why: "busy: the forge says a job runs", Wait: 5 * time.Second},
		},
		"busy for long": {
			prepare: func(w *world, it ws) {
				w.cloud.set(it.name, forge.Active)
				w.exec("UPDATE workspaces SET state_at = now() - interval '1 hour'")
			},
			want: runners.Verdict{Busy: true, Why: "busy: the forge says a job runs", Wait: 30 * time.Second},
		},
		"busy by its number": {
			prepare: func(w *world, it ws) {
				w.cloud.set(it.name, forge.Active)
				w.exec("UPDATE forge_runners SET runner_id = 1")
			},
			want: runners.Verdict{Busy: true, Why: "busy: the forge says a job runs", Wait: 5 * time.Second},
		},
		"in progress, which the forge would not say": {
			prepare: func(w *world, it ws) { w.job(it.name, "in_progress") },
			want:    runners.Verdict{Busy: true, Why: "busy: job build of acme/shop is in progress", Wait: 5 * time.Second},
		},
		"in progress, but gone since": {
			prepare: func(w *world, it ws) {
				w.job(it.name, "in_progress")
				w.exec("UPDATE forge_runners SET status = 'gone', status_at = now() + interval '1 second'")
			},
			want: runners.Verdict{Done: true, Why: "unregistered"}, removed: true,
		},
		"in progress, and gone before": {
			prepare: func(w *world, it ws) {
				w.job(it.name, "in_progress")
				w.exec("UPDATE forge_runners SET status = 'offline', status_at = now() - interval '1 hour'")
			},
			want: runners.Verdict{Busy: true, Why: "busy: job build of acme/shop is in progress", Wait: 5 * time.Second},
		},
		"completed": {
			prepare: func(w *world, it ws) { w.job(it.name, "completed") },
			want:    runners.Verdict{Done: true, Why: "unregistered"}, removed: true,
		},
		"given a job in that moment, by a forge that looks first": {
			prepare: func(w *world, it ws) {
				w.cloud.lenient = true
				w.cloud.removing = func() { w.job(it.name, "in_progress") }
			},
			want: runners.Verdict{Busy: true, Why: "busy: job build of acme/shop began at that moment", Wait: 5 * time.Second}, removed: true,
		},
		"refused": {prepare: func(w *world, _ ws) { w.cloud.failing(forge.ErrRefused) }, fail: forge.ErrRefused},
		"abandoned": {
			prepare: func(w *world, _ ws) {
				w.exec("UPDATE forge_runners SET abandoned_at = now()")
				w.cloud.failing(errors.New("the forge is not to be asked"))
			},
			want: runners.Verdict{Done: true, Why: "an owner had it go without the forge's word"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newWorld(t, 1)
			it := w.put("draining", workspaces.Prewarm)
			w.cloud.set(it.name, forge.Idle)
			if c.prepare != nil {
				c.prepare(w, it)
			}
			v, err := w.service.Deregister(ctx, it.id, 1)
			if c.fail != nil {
				var failed *runners.ForgeError
				require.ErrorAs(t, err, &failed)
				require.ErrorIs(t, err, c.fail)
				require.Empty(t, w.text("SELECT removed_at FROM forge_runners"))
				return
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, v.Wait, c.want.Wait)
			require.LessOrEqual(t, v.Wait, c.want.Wait+time.Minute)
			v.Wait = c.want.Wait
			require.Equal(t, c.want, v)
			require.Equal(t, c.want.Done, w.text("SELECT removed_at FROM forge_runners") != "")
			require.Equal(t, c.want.Busy, w.text("SELECT vetoed_at FROM forge_runners") != "")
			require.Equal(t, c.removed, w.cloud.removals == 1)
			if c.want.Done { // and nothing is asked again
				w.cloud.failing(errors.New("down"))
				again, err := w.service.Deregister(ctx, it.id, 1)
				require.NoError(t, err)
				require.True(t, again.Done)
			}
		})
	}
}

// A forge that limits is asked again when it said.
func TestDeregisterLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	it := w.put("draining", workspaces.Prewarm)
	w.cloud.set(it.name, forge.Idle)
	until := time.Now().Add(10 * time.Minute)
	w.cloud.failing(&forge.RateLimited{Until: until})
	v, err := w.service.Deregister(context.Background(), it.id, 1)
	require.NoError(t, err)
	require.GreaterOrEqual(t, v.Wait, time.Until(until))
	require.LessOrEqual(t, v.Wait, 10*time.Minute)
	v.Wait = 0
	require.Equal(t, runners.Verdict{Why: "the forge's rate limit is reached, until " + until.UTC().Format(time.RFC3339)}, v)
	require.Empty(t, w.text("SELECT concat(removed_at, vetoed_at) FROM forge_runners"))
	require.Zero(t, w.cloud.removals)
}

// A person's deletion asks before anything else: what comes to nothing after that leaves no workspace that is ready without
// a runner.
func TestDeregisterWithoutDrain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.put("ready", workspaces.Prewarm)
	w.cloud.set(it.name, forge.Idle)
	v, err := w.service.Deregister(ctx, it.id, 1)
	require.NoError(t, err)
	require.True(t, v.Done)
	require.NoError(t, w.service.Settle(ctx))
	require.Equal(t, "draining", w.state(it.id))
}

// What is no runner goes as it always did.
func TestDeregisterOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	v, err := w.service.Deregister(context.Background(), uuid.New(), 1)
	require.NoError(t, err)
	require.Equal(t, runners.Verdict{Done: true, Why: "never registered"}, v)
}

// An owner's word stands in for the forge's, on the record, but never against a job that is known of.
func TestAbandon(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	by := workspaces.Actor{UserID: w.Owner, Source: "here", Reason: "deleted by hand"}
	busy, active, going := w.put("ready", workspaces.Prewarm), w.put("ready", workspaces.Prewarm), w.put("ready", workspaces.Prewarm)
	job := w.job(busy.name, "in_progress")
	w.exec("UPDATE forge_runners SET status = 'active' WHERE workspace_id = $1", active.id)
	_, err := w.service.Abandon(ctx, by, busy.id, 1)
	require.ErrorIs(t, err, runners.ErrBusy)
	require.ErrorContains(t, err, "job build of acme/shop")
	_, err = w.service.Abandon(ctx, by, active.id, 1)
	require.ErrorIs(t, err, runners.ErrBusy)
	_, err = w.service.Abandon(ctx, by, uuid.New(), 1)
	require.ErrorIs(t, err, runners.ErrNoRunner)
	require.Equal(t, "0", w.text("SELECT count(*) FROM audit_log WHERE action = 'runner.abandon'"))

	w.complete(job)
	state, err := w.service.Abandon(ctx, by, busy.id, 1)
	require.NoError(t, err)
	require.EqualValues(t, "ready", state)
	_, err = w.writer.Drain(ctx, w.Store, going.id, 1, "extraneous")
	require.NoError(t, err)
	w.exec("UPDATE jobs SET due_at = now() + interval '5 minutes'")
	state, err = w.service.Abandon(ctx, by, going.id, 1)
	require.NoError(t, err)
	require.EqualValues(t, "draining", state)
	require.Equal(t, "0", w.text("SELECT count(*) FROM jobs WHERE due_at > now()"), "what waited for the forge goes on")
	require.Equal(t, "2", w.text("SELECT count(*) FROM audit_log WHERE action = 'runner.abandon' AND source = 'here'"))
}
