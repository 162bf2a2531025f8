package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// The column of jobs is there where any preset is one of runners, and empty for those that are not.
func TestPresetTable_runners(t *testing.T) {
	t.Parallel()
	plain := sdk.Preset{Template: "go", Preset: "small", Pool: true}
	runners := sdk.Preset{
		Template: "ci", Preset: "linux", Pool: true, Counts: sdk.Counts{Desired: 2, Actual: 2, Claimed: 3, Queued: 4},
		Runner: &sdk.RunnerSettings{Forge: "acme", Labels: []string{"linux", "x64"}, Group: "large", Maximum: 5},
	}
	a := &app{stdout: &bytes.Buffer{}, env: func(string) string { return "" }}
	require.NotContains(t, a.presetsWide([]sdk.Preset{plain}), "QUEUED")
	text := a.presetsWide([]sdk.Preset{plain, runners})
	require.Regexp(t, `CLAIMED +QUEUED +NOTE`, text)
	require.Regexp(t, `ci/linux .* 3 +4`, text)
	require.Contains(t, presetLine(runners), " queued=4")
	require.NotContains(t, presetLine(plain), "queued")
	require.Equal(t, "of forge acme, labels linux, x64, group large, at most 5", runnerText(*runners.Runner))
}
