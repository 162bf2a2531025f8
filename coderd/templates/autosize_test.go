package templates_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func autosized(cost, setting string) string {
	return fmt.Sprintf(`
providers: [{name: p, kind: fake}]
templates:
  - name: a
    provider: p
    idle_cost_per_hour: %s
    spec: {command: [x]}
    presets: [{name: default, prebuilds: {instances: 2%s}}]
`, cost, setting)
}

// What a file says of autosize is stored, told when it changes, and taken away with the setting.
func TestApplyAutosize(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stored := func() (setting *string) {
		require.NoError(t, b.Store.Pool.QueryRow(context.Background(), "SELECT autosize::text FROM presets").Scan(&setting))
		return setting
	}
	_, err := b.try(autosized("0", ""), false)
	require.NoError(t, err)
	assert.Nil(t, stored())

	on := autosized("0.12", ", autosize: {mode: apply, max: 40, target: 99.5%, timezone: Europe/Berlin}")
	result, err := b.try(on, false)
	require.NoError(t, err)
	require.Len(t, result.Changes, 2)
	assert.Equal(t, []string{"idle_cost_per_hour: 0 -> 0.12"}, result.Changes[0].Fields)
	assert.Equal(t, []string{"autosize: off -> apply, 1 to 40, 99.5%, Europe/Berlin"}, result.Changes[1].Fields)
	assert.JSONEq(t, `{"mode": "apply", "min": 1, "max": 40, "target": 0.995, "timezone": "Europe/Berlin"}`, *stored())

	// Each of these is refused with a reason (testdata/bad/autosize.golden), and changes nothing.
	for _, bad := range []string{
		"{mode: apply, min: 5, max: 4}", "{mode: apply, max: 4, target: 0%}", "{mode: apply, max: 4, target: 100%}",
		"{mode: always, max: 4}", "{mode: apply}", "{mode: apply, max: 4, timezone: Nowhere}",
	} {
		_, err := b.try(autosized("0.5", ", autosize: "+bad), false)
		require.Error(t, err, bad)
		assert.Contains(t, err.Error(), "f.yaml:8:", bad)
		assert.JSONEq(t, `{"mode": "apply", "min": 1, "max": 40, "target": 0.995, "timezone": "Europe/Berlin"}`, *stored(), bad)
	}
	result, err = b.try(on, false)
	require.NoError(t, err)
	assert.Empty(t, result.Changes, "nothing had changed")

	result, err = b.try(autosized("0.12", ", autosize: {mode: off, max: 40}"), false)
	require.NoError(t, err)
	require.Len(t, result.Changes, 1)
	assert.Nil(t, stored())
}
