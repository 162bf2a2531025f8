package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// A first failed create is in the headline while the next one is under way, long before the hard limit (C8).
func TestExplain_earlyFailure(t *testing.T) {
	t.Parallel()
	now := time.Now()
	plan := prebuilds.Plan{
		Preset: prebuilds.Preset{FailureStreak: 1, LastFailure: "setup ended; its last output:\nfatal: no such host", LastFailureAt: now},
		Counts: prebuilds.Counts{Desired: 1, Starting: 1},
	}
	require.Equal(t, "Not warm: 0 of 1 prebuild ready, 1 starting; the last create failed: fatal: no such host (setup ended).",
		explain.Explain(nil, plan, now, 0).Headline)
	plan.Ledger.Creates = []prebuilds.Line{{Label: prebuilds.LabelHeldBack, Count: -1, Rule: "C8", Reason: prebuilds.Reason{
		Code: prebuilds.HardLimited, Args: prebuilds.Args{Count: 3, Cause: "no such host"},
	}}}
	require.NotContains(t, explain.Explain(nil, plan, now, 0).Headline, "the last create", "the line says it")
}
