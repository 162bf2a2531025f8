package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a pool looked like is told in few steps however long the range: the worst of a step is to be seen in it, a sample
// holds until the next one, and where nothing was sampled nothing is told.
func TestPresetHistory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := w.store.Pool.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	const preset = "(SELECT p.id FROM presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart')"
	var now time.Time
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT prewarm_now()").Scan(&now))
	day := now.UTC().Truncate(time.Hour).Add(-10 * 24 * time.Hour)
	sample := func(at time.Time, desired, ready, starting, claimed int) {
		t.Helper()
		exec("INSERT INTO preset_samples VALUES ("+preset+", $1, $2, $3, $4, $5)", at, desired, ready, starting, claimed)
	}
	sample(day, 5, 5, 0, 1)
	sample(day.Add(5*time.Minute), 5, 0, 5, 6) // empty for five minutes
	sample(day.Add(10*time.Minute), 5, 5, 0, 4)
	sample(day.Add(70*time.Minute), 8, 8, 0, 0) // and nothing after it: no server ran
	exec("INSERT INTO claim_history VALUES ("+preset+", $1, 9, 4, 2, 6)", day.Add(15*time.Minute))
	exec("INSERT INTO claim_history VALUES ("+preset+", $1, 1, 1, 1, 12)", day.Add(20*time.Minute))

	member := w.as("member")
	h, err := member.PresetHistory(ctx, "quickstart", "default", 14*24)
	require.NoError(t, err)
	assert.Equal(t, 3600, h.StepSeconds)
	require.Len(t, h.Points, 14*24+1)
	at := func(when time.Time) sdk.HistoryPoint {
		t.Helper()
		for _, p := range h.Points {
			if p.At.Equal(when) {
				return p
			}
		}
		t.Fatalf("no step begins at %s", when)
		return sdk.HistoryPoint{}
	}
	n := func(v int) *int { return &v }
	assert.Equal(t, sdk.HistoryPoint{
		At: day, Desired: n(5), Ready: n(0), Starting: n(5), Claimed: n(6), Claims: 10, Hits: 5, Provisions: 3, ProvisionMS: 6000,
	}, at(day), "the worst of the hour, and the mean of what was built")
	assert.Equal(t, sdk.HistoryPoint{At: day.Add(time.Hour), Desired: n(8), Ready: n(5), Starting: n(0), Claimed: n(4)},
		at(day.Add(time.Hour)), "a sample holds until the next one")
	assert.Equal(t, sdk.HistoryPoint{At: day.Add(-time.Hour)}, at(day.Add(-time.Hour)), "before the first one nothing is known")
	assert.Equal(t, sdk.HistoryPoint{At: day.Add(3 * time.Hour)}, at(day.Add(3*time.Hour)), "nor long after the last one")
	last := h.Points[len(h.Points)-1]
	require.NotNil(t, last.Desired)
	assert.Equal(t, []int{3, 0}, []int{*last.Desired, *last.Ready}, "the last step has what is so now")

	h, err = member.PresetHistory(ctx, "quickstart", "default", 24)
	require.NoError(t, err)
	assert.Equal(t, []int{300, 289}, []int{h.StepSeconds, len(h.Points)})
	for _, hours := range []int{1, 29, 57, 100, 168, 300} {
		h, err = member.PresetHistory(ctx, "quickstart", "default", hours)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(h.Points), 337, hours)
		assert.Equal(t, time.Duration(hours)*time.Hour, h.Points[len(h.Points)-1].At.Sub(h.From), hours)
	}
	for _, hours := range []int{0, 337} {
		_, err = member.PresetHistory(ctx, "quickstart", "default", hours)
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), hours)
	}
	_, err = member.PresetHistory(ctx, "quickstart", "big", 24)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
}

// How long states last is told of those that are over, of whatever has become of their workspaces since.
func TestPresetDurations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	member := w.as("member")
	none, err := member.PresetDurations(ctx, "quickstart", "default")
	require.NoError(t, err)
	assert.Empty(t, none.States)

	const lives = `INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id)
		SELECT $1, 1, h.from_state::workspace_state, h.to_state::workspace_state, now() + h.after * interval '1 second', u.id
		FROM users u, (VALUES (NULL, 'provisioning', -$2::double precision), ('provisioning', 'starting', 4 - $2),
		       ('starting', $3::text, 4)) h (from_state, to_state, after)
		WHERE u.name = 'prewarm'
		ORDER BY h.after`
	for i, state := range []string{"ready", "claimed", "deleted", "ready"} {
		ws := w.workspace("quickstart", state, "prewarm")
		_, err := w.store.Pool.Exec(ctx, "DELETE FROM workspace_history WHERE workspace_id = $1", ws.ID)
		require.NoError(t, err)
		_, err = w.store.Pool.Exec(ctx, "UPDATE workspaces SET created_at = now() - interval '1 hour' WHERE id = $1", ws.ID)
		require.NoError(t, err)
		_, err = w.store.Pool.Exec(ctx, lives, ws.ID, float64(10*(i+1)), state)
		require.NoError(t, err)
	}
	other := w.workspace("plain", "ready", "prewarm")
	_, err = w.store.Pool.Exec(ctx, lives, other.ID, 1000.0, "ready")
	require.NoError(t, err)
	got, err := member.PresetDurations(ctx, "quickstart", "default")
	require.NoError(t, err)
	assert.Equal(t, []sdk.StateDuration{
		{State: "provisioning", P50MS: 4000, P95MS: 4000, Measured: 4},
		{State: "starting", P50MS: 25_000, P95MS: 38_500, Measured: 4},
	}, got.States)
}

// A workspace that somebody wants to look into leaves its pool, with the reason, and stays for as long as was asked for.
func TestKeepWorkspace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	ready, taken := w.workspace("quickstart", "ready", "prewarm"), w.workspace("quickstart", "claimed", "member")
	kept, err := admin.KeepWorkspace(ctx, ready.Name, sdk.KeepRequest{Reason: "its disk is full", For: "2h"})
	require.NoError(t, err)
	assert.Equal(t, []string{"quarantined", "kept by admin: its disk is full"}, []string{kept.State, kept.Fault})
	require.NotNil(t, kept.ExpiresAt)
	until := *kept.ExpiresAt
	kept, err = admin.KeepWorkspace(ctx, ready.Name, sdk.KeepRequest{Reason: "still looking", For: "5h"})
	require.NoError(t, err)
	assert.InDelta(t, 3*time.Hour, kept.ExpiresAt.Sub(until), float64(time.Minute))
	assert.Equal(t, "kept by admin: its disk is full", kept.Fault, "why it was kept at first")
	shown, err := admin.Workspace(ctx, ready.Name)
	require.NoError(t, err)
	assert.Equal(t, "kept by admin: still looking", shown.History[len(shown.History)-1].Reason)

	_, err = admin.KeepWorkspace(ctx, taken.Name, sdk.KeepRequest{Reason: "r"})
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
	assert.Contains(t, err.Error(), "cannot be kept")
	_, err = admin.KeepWorkspace(ctx, ready.Name, sdk.KeepRequest{Reason: "r", For: "99999h"})
	require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))
	_, err = admin.KeepWorkspace(ctx, ready.Name, sdk.KeepRequest{})
	require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))
	_, err = w.as("member").KeepWorkspace(ctx, ready.Name, sdk.KeepRequest{Reason: "r"})
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err), "prebuilds are not theirs")
	_, err = w.as("auditor").KeepWorkspace(ctx, ready.Name, sdk.KeepRequest{Reason: "r"})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
}

// A resize is planned and applied without a file, and changes one number.
func TestPlanResize(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	resize := sdk.PlanRequest{Resize: &sdk.PlanResize{Template: "quickstart", Preset: "default", Instances: 7}}
	plan, err := admin.MakePlan(ctx, resize)
	require.NoError(t, err)
	require.Len(t, plan.Changes, 1)
	assert.Equal(t, []string{"instances: 3 -> 7"}, plan.Changes[0].Fields)
	assert.Equal(t, 7, plan.Totals.Create)
	_, err = admin.Apply(ctx, sdk.ApplyRequest{Plan: plan.ID.String()})
	require.NoError(t, err)
	preset, err := admin.Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	assert.Equal(t, 7, preset.Desired)
	_, err = admin.Apply(ctx, sdk.ApplyRequest{Plan: plan.ID.String()})
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "the state has moved")

	again, err := admin.MakePlan(ctx, resize)
	require.NoError(t, err)
	assert.Empty(t, again.Changes)
	resize.Document = configuration
	_, err = admin.MakePlan(ctx, resize)
	require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))
	_, err = admin.MakePlan(ctx, sdk.PlanRequest{Resize: &sdk.PlanResize{Template: "quickstart", Preset: "none"}})
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
	_, err = w.as("member").MakePlan(ctx, sdk.PlanRequest{Resize: resize.Resize})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
}
