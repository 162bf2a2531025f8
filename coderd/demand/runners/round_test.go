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
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

// due has the next round of every entity be due now.
func (w *world) due() {
	w.t.Helper()
	w.exec("UPDATE forge_status SET asked_at = asked_at - interval '1 hour', wait_until = NULL")
}

// What a complete listing says of a runner, by what was known of it.
func TestListing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string             // SET of its row
		listed forge.RunnerStatus // empty: it is not
		status string
		seen   bool // registered afterwards
	}{
		"idle":                          {listed: forge.Idle, status: "idle", seen: true},
		"active":                        {listed: forge.Active, status: "active", seen: true},
		"offline":                       {listed: forge.Offline, status: "offline", seen: true},
		"gone":                          {status: "gone", seen: true},
		"made, and not connected yet":   {before: "registered_at = NULL, status = 'pending'", listed: forge.Offline, status: "pending"},
		"not there yet":                 {before: "registered_at = NULL, status = 'pending'", status: "pending"},
		"seen first":                    {before: "registered_at = NULL, status = 'pending'", listed: forge.Idle, status: "idle", seen: true},
		"registered since it began":     {before: "registered_at = now() + interval '1 minute'", status: "idle", seen: true},
		"known later than it began":     {before: "status = 'active', status_at = now() + interval '1 minute'", listed: forge.Idle, status: "active", seen: true},
		"never asked for":               {before: "asked_at = NULL, registered_at = NULL, status = 'pending'", listed: forge.Idle, status: "pending"},
		"not open any more":             {before: "removed_at = now(), status = 'gone'", listed: forge.Idle, status: "gone", seen: true},
		"back after it had been missed": {before: "status = 'gone'", listed: forge.Idle, status: "idle", seen: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			it := w.put("ready", workspaces.Prewarm)
			if c.before != "" {
				w.exec("UPDATE forge_runners SET " + c.before)
			}
			if c.listed != "" {
				w.cloud.set(it.name, c.listed)
			}
			require.NoError(t, w.service.Rounds(context.Background()))
			require.Equal(t, c.status, w.text("SELECT status FROM forge_runners"))
			require.Equal(t, c.seen, w.text("SELECT registered_at FROM forge_runners") != "")
			require.Equal(t, "t t 5000 4999", w.text(`SELECT concat_ws(' ', succeeded_at IS NOT NULL,
				runners_listed_at = asked_at, rate_limit, rate_remaining) FROM forge_status WHERE error = '' AND leased_until IS NULL`))
		})
	}
}

// A listing that failed says nothing: no row is changed, and the forge is left alone for a time, or until it said.
func TestListingFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	w.service.Pace.Backoff = time.Hour // longer than the test takes
	w.put("ready", workspaces.Prewarm) // which the forge does not know
	before := w.text("SELECT json_agg(r) FROM forge_runners r")
	w.cloud.failing(errors.New("500 Internal Server Error"))
	require.NoError(t, w.service.Rounds(ctx))
	require.NoError(t, w.service.Settle(ctx))
	require.Equal(t, before, w.text("SELECT json_agg(r) FROM forge_runners r"))
	require.Equal(t, "list runners: 500 Internal Server Error t", w.text(
		"SELECT concat_ws(' ', error, wait_until > now()) FROM forge_status WHERE runners_listed_at IS NULL"))
	require.NoError(t, w.service.Rounds(ctx))
	require.Equal(t, 1, w.cloud.listings(), "it is left alone")

	w.due()
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	w.cloud.failing(&forge.RateLimited{Until: until})
	require.NoError(t, w.service.Rounds(ctx))
	require.Equal(t, "1", w.text("SELECT count(*) FROM forge_status WHERE wait_until = $1", until))
	require.Equal(t, before, w.text("SELECT json_agg(r) FROM forge_runners r"))

	w.due()
	w.cloud.failing(nil)
	require.NoError(t, w.service.Rounds(ctx))
	require.Equal(t, "1", w.text("SELECT count(*) FROM forge_status WHERE error = '' AND wait_until IS NULL"))
	require.Equal(t, "gone", w.text("SELECT status FROM forge_runners"))
}

// What a forge said of its limit stays known while nothing answers there, also to a replica that never heard it. A forge that
// answers and says none has none.
func TestRateStaysKnown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	round := func(heard bool, fails error) string {
		w.due()
		w.cloud.unheard = !heard
		w.cloud.failing(fails)
		require.NoError(t, w.service.Rounds(ctx))
		return w.text(`SELECT concat_ws(' ', rate_limit, rate_remaining, extract(epoch FROM rate_reset_at)::int) FROM forge_status
			WHERE leased_until IS NULL AND (error <> '') = $1`, fails != nil)
	}
	require.Equal(t, "5000 4999 2000000000", round(true, nil))
	require.Equal(t, "5000 4999 2000000000", round(false, errors.New("no route to host")))
	require.Equal(t, "0 0", round(false, nil))
	require.Equal(t, "5000 4999 2000000000", round(true, errors.New("500 Internal Server Error")))
}

// Of many replicas one makes the round.
func TestRoundOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	require.NoError(t, runnersdb.New(w.Store).EnsureForgeStatus(ctx))
	errs := make(chan error)
	for range 6 {
		s := w.another(uuid.NewString())
		s.Pace.Idle, s.Pace.Awaited, s.Pace.Fresh = time.Hour, time.Hour, time.Hour // the next round is not due yet for the last
		go func() { errs <- s.Rounds(ctx) }()
	}
	for range 6 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 1, w.cloud.listings())
}

// Rounds that begin together end each by itself: the error of one forge is not recorded for another.
func TestRounds_errorOfOneForge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	down := uuid.New()
	w.exec(`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by,
		  created_at, updated_at)
		SELECT $1, organization_id, 'bank', scope, 'bank', credential_id, '', 'k', now(), now() FROM forge_entities`, down)
	w.service.Directory = directory{w.entity: w.cloud, down: &cloud{fail: errors.New("500 Internal Server Error")}}
	require.NoError(t, w.service.Rounds(t.Context()))
	how := `SELECT concat_ws(', ', error, succeeded_at IS NOT NULL, wait_until IS NOT NULL) FROM forge_status WHERE entity_id = $1`
	require.Equal(t, "list runners: 500 Internal Server Error, f, t", w.text(how, down))
	require.Equal(t, ", t, f", w.text(how, w.entity))
}

// directory has a forge for each entity.
type directory map[uuid.UUID]forge.Forge

func (d directory) Forge(_ context.Context, id uuid.UUID) (forge.Forge, error) { return d[id], nil }

// What else is asked in a round is asked after the listing; its error is shown, and takes nothing from what was listed.
func TestRoundHook(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	it := w.put("ready", workspaces.Prewarm)
	w.cloud.set(it.name, forge.Active)
	var asked uuid.UUID
	w.service.Round = append(w.service.Round, func(_ context.Context, entity uuid.UUID) error {
		asked = entity
		require.Equal(t, 1, w.cloud.listings())
		return errors.New("no deliveries")
	})
	require.NoError(t, w.service.Rounds(ctx))
	require.Equal(t, w.entity, asked)
	require.Equal(t, "active", w.text("SELECT status FROM forge_runners"))
	require.Equal(t, "no deliveries", w.text("SELECT error FROM forge_status WHERE runners_listed_at IS NOT NULL"))
}

// Runners left behind are removed: those that are offline, and were of a workspace that is gone for an hour. Nobody else's.
func TestForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	old, fresh, online, live := w.put("deleted", workspaces.Prewarm), w.put("deleted", workspaces.Prewarm),
		w.put("deleted", workspaces.Prewarm), w.put("ready", workspaces.Prewarm)
	refused := w.put("deleted", workspaces.Prewarm)
	w.exec("UPDATE workspaces SET deleted_at = now() WHERE id = $1", fresh.id)
	for _, it := range []ws{old, fresh, live, refused} {
		w.cloud.set(it.name, forge.Offline)
	}
	w.cloud.busy[w.cloud.runners[refused.name].ID] = true // the forge still waits for its job
	w.cloud.set(online.name, forge.Idle)
	w.cloud.set("prebuild-of-somebody-else", forge.Offline)
	require.NoError(t, w.service.Rounds(context.Background()))
	require.NotContains(t, w.cloud.names(), old.name)
	require.Len(t, w.cloud.names(), 5)
	require.Equal(t, "1", w.text("SELECT count(*) FROM forge_status WHERE error = '' AND succeeded_at IS NOT NULL"),
		"neither a removal nor a runner that has a job is an error of the round")
}

// What is kept to be looked at is unregistered, so that it is given no job; one that has a job goes on, and is asked for again.
func TestQuarantined(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	kept, busy, ready := w.put("quarantined", workspaces.Prewarm), w.put("quarantined", workspaces.Prewarm),
		w.put("ready", workspaces.Prewarm)
	w.cloud.set(kept.name, forge.Idle)
	w.cloud.set(busy.name, forge.Active)
	w.cloud.set(ready.name, forge.Idle)
	again := func() {
		w.exec("UPDATE forge_status SET asked_at = now() - interval '1 hour'")
		require.NoError(t, w.service.Rounds(ctx))
	}
	again()
	require.ElementsMatch(t, []string{busy.name, ready.name}, w.cloud.names())
	require.Equal(t, "gone", w.text("SELECT status::text FROM forge_runners WHERE workspace_id = $1", kept.id))
	require.Equal(t, "quarantined", w.state(kept.id), "it stays to be looked at")
	w.cloud.set(busy.name, forge.Idle)
	again()
	require.Equal(t, []string{ready.name}, w.cloud.names())
	require.Equal(t, "quarantined", w.state(busy.id))
	w.cloud.failing(forge.ErrRefused)
	again()
	require.Equal(t, "idle", w.text("SELECT status::text FROM forge_runners WHERE workspace_id = $1", ready.id))
}

// The forge is asked more often while somebody waits, and not when its limit is almost reached.
func TestPace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 1)
	service := w.another("slow")
	service.Pace = runners.Pace{
		Idle: time.Hour, Awaited: 10 * time.Minute, Fresh: 2 * time.Minute, Backoff: time.Hour, Look: time.Second,
	}
	w.put("starting", workspaces.Prewarm)
	require.NoError(t, service.Rounds(ctx))
	for _, c := range []struct {
		row, status string // SET
		ago         int    // minutes since the last round
		due         bool
	}{
		{"registered_at = now()", "", 50, false},
		{"registered_at = now()", "", 70, true},
		{"registered_at = NULL, handed_out_at = now()", "", 1, false},
		{"registered_at = NULL, handed_out_at = now()", "", 3, true},
		{"registered_at = NULL, handed_out_at = now() - interval '2 minutes'", "", 8, false},
		{"registered_at = NULL, handed_out_at = now() - interval '2 minutes'", "", 12, true},
		{"registered_at = now(), vetoed_at = now()", "", 12, true},
		{"registered_at = NULL, handed_out_at = now()", "rate_remaining = 100, rate_reset_at = now() + interval '1 hour'", 12, false},
		{"registered_at = NULL, handed_out_at = now()", "rate_remaining = 100, rate_reset_at = now() - interval '1 minute'", 12, true},
		{"registered_at = NULL, handed_out_at = now()", "rate_remaining = 2000, rate_reset_at = now() + interval '1 hour'", 12, true},
	} {
		before := w.cloud.listings()
		w.exec("UPDATE forge_runners SET vetoed_at = NULL")
		w.exec("UPDATE forge_runners SET " + c.row)
		w.exec("UPDATE forge_status SET asked_at = now() - $1 * interval '1 minute'", c.ago)
		if c.status != "" {
			w.exec("UPDATE forge_status SET " + c.status)
		}
		require.NoError(t, service.Rounds(ctx))
		require.Equal(t, c.due, w.cloud.listings() > before, "%+v", c)
	}
}
