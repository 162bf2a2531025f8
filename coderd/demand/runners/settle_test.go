package runners_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// What follows from a runner's rows, for its workspace. Empty: nothing.
func TestSettle(t *testing.T) {
	t.Parallel()
	jobs, people := workspaces.ForgeJobs, workspaces.Prewarm
	for name, c := range map[string]struct {
		state    database.WorkspaceState
		owner    uuid.UUID
		status   string // at the forge; idle, from before the state, where empty
		since    bool   // the listing began after the workspace came into its state
		finished bool
		job      database.ForgeJobState // of its runner; empty: none
		to       string
		reason   string
	}{
		"ready, idle":                       {state: "ready", owner: people},
		"ready, offline for a moment":       {state: "ready", owner: people, status: "offline", since: true},
		"ready, in progress":                {state: "ready", owner: people, job: "in_progress", to: "claimed", reason: "claimed by job build of acme/shop"},
		"ready, busy without a known job":   {state: "ready", owner: people, status: "active", to: "claimed", reason: "busy at the forge"},
		"ready, in progress was missed":     {state: "ready", owner: people, job: "completed", to: "draining", reason: "job build of acme/shop completed: success"},
		"ready, busy before it completed":   {state: "ready", owner: people, status: "active", job: "completed", to: "draining", reason: "completed: success"},
		"ready, ended":                      {state: "ready", owner: people, finished: true, to: "draining", reason: "has ended"},
		"ready, gone":                       {state: "ready", owner: people, status: "gone", to: "draining", reason: "gone from the forge"},
		"ready, offline for long":           {state: "ready", owner: people, status: "offline", to: "draining", reason: "offline at the forge for 5m"},
		"starting, idle":                    {state: "starting", owner: people},
		"starting, in progress":             {state: "starting", owner: people, job: "in_progress"},
		"starting, completed":               {state: "starting", owner: people, job: "completed", to: "draining", reason: "completed: success"},
		"claimed, in progress":              {state: "claimed", owner: jobs, job: "in_progress"},
		"claimed, busy":                     {state: "claimed", owner: jobs, status: "active", since: true},
		"claimed, listed before":            {state: "claimed", owner: jobs},
		"claimed, completed":                {state: "claimed", owner: jobs, job: "completed", to: "draining", reason: "completed: success"},
		"claimed, gone":                     {state: "claimed", owner: jobs, status: "gone", to: "draining", reason: "gone"},
		"claimed, gone while in progress":   {state: "claimed", owner: jobs, status: "gone", job: "in_progress", to: "draining", reason: "gone"},
		"claimed, ended":                    {state: "claimed", owner: jobs, finished: true, to: "draining", reason: "ended"},
		"claimed, idle again":               {state: "claimed", owner: jobs, since: true, to: "draining", reason: "idle at the forge again"},
		"claimed by a person, completed":    {state: "claimed", owner: people, job: "completed"},
		"claimed by a person, gone":         {state: "claimed", owner: people, status: "gone"},
		"claimed by a person, ended":        {state: "claimed", owner: people, finished: true},
		"draining, completed":               {state: "draining", owner: people, job: "completed"},
		"quarantined, in progress":          {state: "quarantined", owner: people, job: "in_progress"},
		"standby, gone (there are no such)": {state: "standby", owner: people, status: "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newWorld(t, 1)
			it := w.put(c.state, c.owner)
			if c.status != "" {
				w.exec(`UPDATE forge_runners SET status = $1::text::forge_runner_status, status_since = now() - interval '10 minutes'`,
					c.status)
			}
			if c.since {
				w.exec("UPDATE forge_runners SET status_at = now() + interval '1 second', status_since = now()")
			}
			if c.finished {
				w.exec("UPDATE forge_runners SET finished_at = now()")
			}
			if c.job != "" {
				w.job(it.name, c.job)
			}
			var woken atomic.Bool
			w.hints.Connect(hints.Ears{Wake: func() { woken.Store(true) }})
			require.NoError(t, w.service.Settle(ctx))
			require.Equal(t, c.to == "draining", woken.Load(), "workers have to delete what drains, and nothing else")
			if c.to == "" {
				require.Equal(t, string(c.state), w.state(it.id))
				require.Equal(t, "0", w.text("SELECT count(*) FROM workspace_history"))
				return
			}
			require.Equal(t, c.to, w.state(it.id))
			require.Contains(t, w.reason(it.id), c.reason)
			if c.job != "" {
				require.Equal(t, it.id.String(), w.text("SELECT workspace_id FROM forge_jobs"), "the job is its workspace's")
			}
			before := w.text("SELECT count(*) FROM workspace_history")
			require.NoError(t, w.service.Settle(ctx))
			require.Equal(t, before, w.text("SELECT count(*) FROM workspace_history"), "settled twice is settled once")
		})
	}
}

// The claim of a job is as old as the job, has no lease whatever the template says, and is on the record.
func TestClaimOfAJob(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 2)
	w.exec("UPDATE templates SET claim_lease_s = 60")
	hit, waited := w.put("ready", workspaces.Prewarm), w.put("ready", workspaces.Prewarm)
	w.exec("UPDATE workspaces SET ready_at = now() WHERE id = $1", waited.id)
	for _, it := range []ws{hit, waited} {
		w.job(it.name, "in_progress")
	}
	require.NoError(t, w.service.Settle(ctx))
	for outcome, it := range map[string]ws{"hit": hit, "waited": waited} {
		require.Equal(t, outcome+" bound require 00000000-0000-4000-8000-000000000003 t t", w.text(`
			SELECT concat_ws(' ', c.outcome, c.state, c.mode, c.user_id, c.lease_s IS NULL AND c.lease_until IS NULL,
			  c.created_at = j.queued_at)
			FROM workspaces w JOIN claims c ON c.id = w.claim_id JOIN forge_jobs j ON j.workspace_id = w.id
			WHERE w.id = $1 AND w.owner_id = c.user_id`, it.id))
		require.Equal(t, "claimed by job build of acme/shop", w.text(
			"SELECT reason FROM audit_log WHERE action = 'workspace.claim' AND target_id = $1::text", it.id.String()))
	}
}

// Of many replicas that settle at once one makes each claim, and a person's claim that comes first stays (I1, I2).
func TestSettleAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 20)
	for range 20 {
		w.job(w.put("ready", workspaces.Prewarm).name, "in_progress")
	}
	taken := w.put("claimed", w.Owner)
	w.job(taken.name, "in_progress")
	errs := make(chan error)
	for range 5 {
		go func() { errs <- w.another("other").Settle(ctx) }()
	}
	for range 5 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, "20", w.text("SELECT count(*) FROM claims WHERE state = 'bound' AND user_id = $1", workspaces.ForgeJobs))
	require.Equal(t, "20", w.text("SELECT count(*) FROM workspace_history WHERE to_state = 'claimed'"))
	require.Equal(t, w.Owner.String(), w.text("SELECT owner_id FROM workspaces WHERE id = $1", taken.id))
}

// A job that completed ends the runner that had it, and no other of the pool.
func TestSettle_jobOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	served, idle := w.put("ready", workspaces.Prewarm), w.put("ready", workspaces.Prewarm)
	w.job(served.name, "completed")
	require.NoError(t, w.service.Settle(t.Context()))
	require.Equal(t, "draining", w.state(served.id))
	require.Equal(t, "ready", w.state(idle.id))
}

// What another replica releases between a replica's look and its own release is no failure of that Settle.
func TestSettle_releasedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWorld(t, 2)
	for range 2 {
		w.job(w.put("claimed", workspaces.ForgeJobs).name, "completed")
	}
	other, faster := w.another("other"), make(chan error, 1)
	var began atomic.Bool
	w.hints.Connect(hints.Ears{Nudge: func(...uuid.UUID) {
		if !began.Swap(true) { // the first is released: now the other replica takes the second
			faster <- other.Settle(ctx)
		}
	}})
	require.NoError(t, w.service.Settle(ctx))
	require.NoError(t, <-faster)
	require.Equal(t, "1 other, 1 test", w.text(`SELECT string_agg(n || ' ' || source, ', ' ORDER BY source)
		FROM (SELECT source, count(*) AS n FROM audit_log WHERE action = 'workspace.release' GROUP BY source) releases`))
}

// A runner may have its job before it is ready. So once it was seen, rows are settled each half second for five seconds.
func TestSettle_soonAfterSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	it := w.put("starting", workspaces.Prewarm)
	w.exec("UPDATE forge_runners SET registered_at = NULL")
	w.job(it.name, "in_progress")                                                                               // by which its runner is seen
	w.exec("INSERT INTO forge_status (entity_id, wait_until) VALUES ($1, now() + interval '1 hour')", w.entity) // no round
	clock := quartz.NewMock(t)
	w.service.Clock, w.service.Pace.Look, w.service.Pace.Settle = clock, time.Hour, 15*time.Second
	w.service.Jitter = func(d time.Duration) time.Duration { return d / 2 } // so that each pause is as long as is said
	pauses := clock.Trap().NewTimer("runners", "settle")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); pauses.Close(); running.Wait() }()
	running.Go(func() { w.service.Run(ctx) })
	settled := func() time.Duration {
		pause := pauses.MustWait(ctx)
		pause.MustRelease(ctx)
		return pause.Duration
	}
	for n := range 10 {
		require.Equal(t, 500*time.Millisecond, settled())
		require.Equal(t, "starting", w.state(it.id))
		if n == 9 {
			w.exec("UPDATE workspaces SET state = 'ready', ready_at = now()")
		}
		clock.Advance(500 * time.Millisecond).MustWait(ctx)
	}
	require.Equal(t, 15*time.Second, settled(), "then as usual")
	require.Equal(t, "claimed", w.state(it.id))
}

// A drain that the forge refused goes on once the job is over, and is not asked for again before its time otherwise.
func TestHastenedDrains(t *testing.T) {
	t.Parallel()
	listed := func(t *testing.T, w *world, it ws, status forge.RunnerStatus) {
		t.Helper()
		w.cloud.set(it.name, status)
		w.due()
		require.NoError(t, w.service.Rounds(t.Context()))
	}
	for name, c := range map[string]struct {
		before, since func(t *testing.T, w *world, it ws) // the refusal
		now           bool                                // it is due
	}{
		"nothing is known":    {},
		"completed since":     {now: true, since: func(_ *testing.T, w *world, it ws) { w.job(it.name, "completed") }},
		"in progress since":   {since: func(_ *testing.T, w *world, it ws) { w.job(it.name, "in_progress") }},
		"listed busy since":   {since: func(t *testing.T, w *world, it ws) { listed(t, w, it, forge.Active) }},
		"gone since":          {now: true, since: func(t *testing.T, w *world, it ws) { listed(t, w, it, "") }},
		"missed in a listing": {before: func(t *testing.T, w *world, it ws) { listed(t, w, it, "") }},
		"ended since": {now: true, since: func(t *testing.T, w *world, it ws) {
			require.NoError(t, w.service.Report(t.Context(), it.id, 1, runners.SaidFinished))
		}},
		"ended before": {before: func(t *testing.T, w *world, it ws) {
			require.NoError(t, w.service.Report(t.Context(), it.id, 1, runners.SaidFinished))
		}},
		"completed before": {before: func(_ *testing.T, w *world, it ws) { w.job(it.name, "completed") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			w := newWorld(t, 2)
			require.NoError(t, w.service.Rounds(ctx)) // the first
			refused, other := w.put("ready", workspaces.Prewarm), w.put("ready", workspaces.Prewarm)
			for _, it := range []ws{refused, other} {
				w.cloud.set(it.name, forge.Idle)
				_, err := w.writer.Drain(ctx, w.Store, it.id, 1, "extraneous")
				require.NoError(t, err)
			}
			if c.before != nil {
				c.before(t, w, refused)
			}
			require.NoError(t, w.service.Settle(ctx))
			w.cloud.set(refused.name, forge.Active)
			verdict, err := w.service.Deregister(ctx, refused.id, 1)
			require.NoError(t, err)
			require.True(t, verdict.Busy)
			w.exec("UPDATE jobs SET due_at = now() + interval '5 minutes'")
			if c.since != nil {
				c.since(t, w, refused)
			}
			require.NoError(t, w.service.Settle(ctx))
			due := func(it ws) bool {
				return w.text("SELECT due_at <= now() FROM jobs WHERE kind = 'drain' AND workspace_id = $1", it.id) == "true"
			}
			require.Equal(t, c.now, due(refused))
			require.False(t, due(other), "the forge has said nothing of it")
		})
	}
}
