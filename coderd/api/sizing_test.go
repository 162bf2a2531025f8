package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a preset's claims say about its size, to whoever may see presets; of costs only where the template has a price.
func TestSizing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	exec := func(sql string) {
		_, err := w.store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	member := w.as("member")
	exec("UPDATE presets SET created_at = created_at - interval '30 days'")
	size, err := member.PresetSize(ctx, "quickstart", "default", 14, 0)
	require.NoError(t, err)
	assert.Equal(t, []any{3, 0, 0.99, 300.0}, []any{size.Recommended, size.Claims, size.Target, size.ProvisionSeconds})
	assert.Nil(t, size.Autosize)

	// Four at once every hour: three hits, one miss. A size of three cannot do better, one of four has no miss.
	exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, created_at)
		SELECT gen_random_uuid(), p.organization_id, p.id, (SELECT id FROM users WHERE name = 'owner'), 'require', 'missed', 'miss',
		       prewarm_now() - (i / 4 * interval '1 hour') - interval '1 minute'
		FROM presets p JOIN templates t ON t.id = p.template_id, generate_series(0, 399) i
		WHERE t.name = 'quickstart'`)
	const days = 5 // which these claims fill: each is replayed in steps, a hundred times as slow where the race detector looks at a busy machine
	exec("UPDATE templates SET idle_cost_per_hour = 0.5")
	exec(`UPDATE presets SET autosize = '{"mode": "apply", "min": 1, "max": 9, "target": 0.9}' WHERE instances IS NOT NULL`)
	exec(`INSERT INTO preset_sizes SELECT id, 7, 6, 5, 1.5, 'forecast', '{}', prewarm_now(), 'claims ask for more than the maximum'
		FROM presets WHERE instances IS NOT NULL`)
	size, err = member.PresetSize(ctx, "quickstart", "default", days, 0.8)
	require.NoError(t, err)
	assert.Equal(t, []any{400, 4, 0.8, 4}, []any{size.Claims, size.Recommended, size.Target, size.Busiest})
	require.Len(t, size.Outcomes, 2)
	assert.Equal(t, []any{"4", "autosize"}, []any{size.Outcomes[0].Size, size.Outcomes[1].Size})
	assert.InDelta(t, size.Outcomes[0].IdleHours*0.5/400, size.Outcomes[0].CostPerClaim, 1e-9)
	assert.Positive(t, size.Outcomes[0].IdleCost)
	require.NotNil(t, size.Autosize)
	require.NotNil(t, size.Autosize.Size)
	assert.Equal(t, []any{"apply", 7, 6, 5, 1.5}, []any{
		size.Autosize.Mode, *size.Autosize.Size, size.Autosize.Forecast, size.Autosize.Recent, size.Autosize.Boost,
	})
	shown, err := member.Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	assert.Equal(t, 7, shown.Desired, "what is shown as desired is what a pass takes")
	why, err := member.ExplainPreset(ctx, "quickstart", "default")
	require.NoError(t, err)
	for _, said := range []string{size.Autosize.Unattainable, shown.Unattainable, why.Unattainable} {
		assert.Equal(t, "claims ask for more than the maximum", said)
	}
	// What came of it, by size: at the maximum of 9, in a burst at 5, and with enough prebuilds that were not ready.
	exec("DELETE FROM claim_history")
	exec("DELETE FROM preset_samples")
	exec(`INSERT INTO claim_history (preset_id, bucket, claims, hits)
		SELECT p.id, date_bin('5 minutes', prewarm_now() - x.ago, 'epoch'), x.claims, x.hits
		FROM presets p, (VALUES (interval '1 hour', 30, 20), ('2 hours', 8, 6), ('3 hours', 2, 1), ('3 days', 60, 60), ('9 days', 9, 0))
			x(ago, claims, hits) WHERE p.instances IS NOT NULL`)
	exec(`INSERT INTO preset_samples (preset_id, bucket, desired, ready, starting, claimed)
		SELECT p.id, date_bin('5 minutes', prewarm_now() - x.ago, 'epoch'), x.desired, 0, 0, 0
		FROM presets p, (VALUES (interval '1 hour', 9), ('2 hours', 5), ('4 hours', 4)) x(ago, desired) WHERE p.instances IS NOT NULL`)
	size, err = member.PresetSize(ctx, "quickstart", "default", days, 0.8)
	require.NoError(t, err)
	why, err = member.ExplainPreset(ctx, "quickstart", "default")
	require.NoError(t, err)
	const words = "13 claims missed: 10 at the maximum of 9 prebuilds, 2 in 1 burst that nothing announced, of more claims than prebuilds, " +
		"1 while prebuilds were not ready"
	for _, got := range [][]sdk.Attained{size.Autosize.Attained, why.Attained} {
		assert.Equal(t, []sdk.Attained{
			{Days: 1, Target: 0.9, Claims: 40, Hits: 27, AtMaximum: 10, InBursts: 2, Bursts: 1, Unready: 1, Why: words},
			{Days: 7, Target: 0.9, Claims: 100, Hits: 87, AtMaximum: 10, InBursts: 2, Bursts: 1, Unready: 1, Why: words},
		}, got)
	}
	exec(`UPDATE presets SET autosize = '{"mode": "forecast", "min": 1, "max": 9, "target": 0.9}' WHERE instances IS NOT NULL`)
	shown, err = member.Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	assert.Equal(t, 3, shown.Desired, "a forecast is not")
	assert.Empty(t, shown.Unattainable, "and it is not held against the target")
	why, err = member.ExplainPreset(ctx, "quickstart", "default")
	require.NoError(t, err)
	assert.Empty(t, why.Attained)

	own, err := member.PresetReplay(ctx, "quickstart", "default", 3, -1, false)
	require.NoError(t, err)
	require.Len(t, own.Outcomes, 2)
	assert.Equal(t, []any{"3", 0.75}, []any{own.Outcomes[0].Size, own.Outcomes[0].HitRate})
	assert.Equal(t, 4*3*24, own.Claims, "three days are looked at")
	other, err := member.PresetReplay(ctx, "quickstart", "default", 7, 1, true)
	require.NoError(t, err)
	assert.Equal(t, []any{"1", 0.25}, []any{other.Outcomes[0].Size, other.Outcomes[0].HitRate})

	for name, refused := range map[string]func() error{
		"no such preset": func() error { _, err := member.PresetSize(ctx, "quickstart", "big", 14, 0); return err },
		"target of one":  func() error { _, err := member.PresetSize(ctx, "quickstart", "default", 14, 1); return err },
		"no days":        func() error { _, err := member.PresetSize(ctx, "quickstart", "default", 0, 0); return err },
		"a year":         func() error { _, err := member.PresetReplay(ctx, "quickstart", "default", 365, 1, false); return err },
		"a million": func() error {
			_, err := member.PresetReplay(ctx, "quickstart", "default", 7, 1_000_000, false)
			return err
		},
	} {
		want := http.StatusUnprocessableEntity
		if name == "no such preset" {
			want = http.StatusNotFound
		}
		assert.Equal(t, want, sdk.StatusOf(refused()), name)
	}
}
