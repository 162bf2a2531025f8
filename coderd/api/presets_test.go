package api_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// TestPresetCounts: the counts that SQL makes are those of the planner, for unclaimed workspaces of every kind; and
// their partition leaves out and counts twice nothing (C3).
func TestPresetCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	shown, err := w.as("member").Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	var key uuid.UUID
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT pool_key FROM presets WHERE id = $1", shown.ID).Scan(&key))

	var all []prebuilds.Workspace
	claimed := 0
	for range 300 {
		state := prebuilds.State([]string{
			"provisioning", "starting", "ready", "standby", "claimed", "draining", "deleting",
			"deleted", "quarantined",
		}[random.IntN(9)])
		row := w.workspace("quickstart", string(state), "prewarm")
		x := prebuilds.Workspace{ID: row.ID, PresetID: shown.ID, PoolKey: key, State: state, Incarnation: 1}
		set := func(column string, value any) {
			_, err := w.store.Pool.Exec(ctx, "UPDATE workspaces SET "+column+" = $1 WHERE id = $2", value, row.ID)
			require.NoError(t, err)
		}
		if random.IntN(4) == 0 {
			x.PoolKey = uuid.New()
			set("pool_key", x.PoolKey)
		}
		if random.IntN(3) == 0 {
			x.ExpiresAt = now.Add(time.Duration(random.IntN(3)-1)*time.Hour + 30*time.Minute) // which is long enough for the test
			set("expires_at", x.ExpiresAt)
		}
		if random.IntN(4) == 0 {
			x.HasIntent = true
			_, err := w.store.Pool.Exec(ctx, "INSERT INTO intents VALUES ($1, 1, 'drain', 'test', now())", row.ID)
			require.NoError(t, err)
		}
		switch state {
		case prebuilds.Claimed:
			claimed++
		case prebuilds.Deleted:
		default:
			all = append(all, x)
		}
	}
	_, err = w.store.Pool.Exec(ctx, `
		INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at)
		SELECT gen_random_uuid(), $1, $2, $3, 'prefer', 'waiting', now(), now() + n * interval '1 hour'
		FROM unnest(array[-1, 1, 2]) n`, auth.DefaultOrganizationID, shown.ID, w.owner.UserID)
	require.NoError(t, err)

	for _, keep := range []bool{false, true} {
		_, err = w.store.Pool.Exec(ctx, "UPDATE templates SET keep_outdated = $1", keep)
		require.NoError(t, err)
		for _, retired := range []prebuilds.Code{"", prebuilds.TemplateDeprecated} {
			_, err = w.store.Pool.Exec(ctx, "UPDATE templates SET deprecated_at = CASE WHEN $1 <> '' THEN now() END", retired)
			require.NoError(t, err)
			desired := 3
			if retired != "" {
				desired = 0
			}
			want := prebuilds.Count(prebuilds.Preset{
				ID: shown.ID, PoolKey: key, Desired: desired, KeepOutdated: keep, Retired: retired, Waiting: 2,
			}, all, now)
			got, err := w.as("member").Preset(ctx, "quickstart", "default")
			require.NoError(t, err)
			require.Equal(t, sdk.Counts{
				Desired: want.Desired, Actual: want.Actual, Standby: want.Standby, Eligible: want.Eligible, Starting: want.Starting,
				Stopping: want.Stopping, Deleting: want.Deleting, Outdated: want.Outdated, Extraneous: want.Extraneous,
				Expired: want.Expired, Quarantined: want.Quarantined, Waiting: want.Waiting, Claimed: claimed,
			}, got.Counts, "keep %t, retired %q", keep, retired)
			require.Equal(t, len(all), got.Deleting+got.Stopping+got.Quarantined+got.Outdated+got.Expired+got.Starting+got.Actual)
			require.Positive(t, got.Actual)
		}
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	list, err := w.as("auditor").Presets(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "plain", list[0].Template)
	require.False(t, list[0].Pool)
	quick := list[1]
	require.Equal(t, "default", quick.Organization)
	require.Equal(t, 1, quick.Version)
	require.Equal(t, 3, quick.Desired)
	require.Equal(t, "8h0m0s", quick.TTL)
	require.NotNil(t, quick.Reasons)

	ledger, err := json.Marshal(prebuilds.Ledger{Creates: []prebuilds.Line{
		{Label: "desired", Count: 3}, {Label: "held back", Count: -3, Rule: "C10", Text: "paused: move"}, // of a release before codes
	}})
	require.NoError(t, err)
	_, err = w.store.Pool.Exec(ctx, `INSERT INTO preset_status (preset_id, counts, ledger, error, digest, pass_seq, changed_at)
		VALUES ($1, '{}', $2, 'no snapshot', '', 1, now())`, quick.ID, ledger)
	require.NoError(t, err)
	quick, err = w.as("auditor").Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Equal(t, "no snapshot", quick.Error)
	require.NotNil(t, quick.PassedAt)
	require.Len(t, quick.Reasons, 1)
	require.Contains(t, quick.Reasons[0], "paused: move")

	require.NoError(t, w.as("admin").NudgePreset(ctx, "quickstart", "default"))
	require.Len(t, w.nudged, 1)
	err = w.as("admin").NudgePreset(ctx, "quickstart", "x")
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
	require.Len(t, w.nudged, 1)
}
