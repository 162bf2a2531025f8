package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Of all that is wrong with a pool, what is said is the worst.
func TestAttend(t *testing.T) {
	t.Parallel()
	warm := explain.Pool{Desired: 3, Ready: 3}
	stopped := prebuilds.Ledger{Rollout: &prebuilds.Rollout{Phase: prebuilds.RolloutStopped, Text: "late"}}
	for _, c := range []struct {
		set  func(*explain.Pool)
		want explain.Attention
	}{
		{func(*explain.Pool) {}, explain.Attention{}},
		{func(p *explain.Pool) { p.Ready, p.Starting = 0, 3 }, explain.Attention{}},
		{func(p *explain.Pool) { p.Error, p.Failures = "no such provider", 3 }, explain.Attention{
			Code: explain.PassFailed, Bad: true, Text: "The last pass could do nothing: no such provider",
		}},
		{func(p *explain.Pool) { p.Ledger, p.Failures = stopped, 3 }, explain.Attention{
			Code: explain.RolloutStopped, Bad: true, Text: "Rollout stopped: late",
		}},
		{func(p *explain.Pool) { p.Failures, p.Fault, p.Paused = 1, "no disk", "x" }, explain.Attention{
			Code: explain.CreatesFailed, Bad: true, Text: "A create failed: no disk",
		}},
		{func(p *explain.Pool) { p.Failures, p.Fault = 2, "setup ended; its last output:\nfatal: no such host" }, explain.Attention{
			Code: explain.CreatesFailed, Bad: true, Text: "Creates failed 2 times in a row: fatal: no such host (setup ended)",
		}},
		{func(p *explain.Pool) { p.Failures = 4 }, explain.Attention{
			Code: explain.CreatesFailed, Bad: true, Text: "Creates failed 4 times in a row.",
		}},
		{func(p *explain.Pool) { p.Paused, p.Waiting, p.Ready = "moving", 1, 0 }, explain.Attention{
			Code: explain.PoolPaused, Text: "Paused: moving",
		}},
		{func(p *explain.Pool) { p.Waiting, p.Ready, p.Starting = 2, 0, 3 }, explain.Attention{
			Code: explain.ClaimsWait, Text: "2 claims wait for a workspace.",
		}},
		{func(p *explain.Pool) {
			p.Ready, p.Ledger.Creates = 0, []prebuilds.Line{{
				Label: prebuilds.LabelHeldBack, Count: -3, Rule: "S4",
				Reason: prebuilds.Reason{Code: prebuilds.ProviderMaximum, Args: prebuilds.Args{Limit: 2, Provider: "sim"}},
			}}
		}, explain.Attention{
			Code: explain.PoolEmpty, Bad: true, Text: "Empty, and nothing is being built: 3 creates held back: maximum 2 of provider sim (S4)",
		}},
		{func(p *explain.Pool) { p.Failed = 1 }, explain.Attention{
			Code: explain.Inspection, Text: "One that failed is kept for inspection.",
		}},
	} {
		pool := warm
		c.set(&pool)
		require.Equal(t, c.want, explain.Attend(pool))
	}
}

// A row of a release before codes has words only: they are shown as they are, and nothing is made of them.
func TestStored_wordsOfOlderReleases(t *testing.T) {
	t.Parallel()
	l := prebuilds.Ledger{Creates: []prebuilds.Line{{
		Label: prebuilds.LabelHeldBack, Count: -1, Rule: "C8", Text: "hard limit, until the version changes or a reset: 3 failed creates in a row",
	}}}
	require.Equal(t, l, explain.Stored(l))
	require.Equal(t, []explain.Said{{
		Text: "1 create held back: hard limit, until the version changes or a reset: 3 failed creates in a row (C8)",
	}}, explain.Reasons(l))
	_, stopped := l.HardLimit()
	require.False(t, stopped, "the next pass stores its code")
}
