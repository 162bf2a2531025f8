package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Forty jobs in bursts on a bad day of forge and network, on two replicas, of which the one that the webhooks go to is killed
// in the middle: each job runs once and ends well, no runner goes while at its job, and in the end there is what was wanted.
func TestForge_badDay(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 4, forgetest.Options{Seed: 8})
	second := p.options
	second.Replica = "second"
	e2etest.Start(t, second)
	defer p.clear() // before what is cleaned up: these servers are stopped first then
	p.forge.SetFaults(forgetest.Faults{
		Errors: 0.05, Slow: 0.1, SlowFor: 300 * time.Millisecond, Lose: 0.1, Repeat: 0.1, Delay: 0.3, DelayBy: 2 * time.Second,
	})
	const bursts, burst = 4, 10
	for i := range bursts {
		before := p.open()
		p.queue(burst, 500*time.Millisecond)
		if i == bursts/2 {
			listen := p.first.URL[len("http://"):]
			p.first.Kill()
			p.died = true
			again := p.options
			again.Listen = listen
			p.first = e2etest.Start(t, again)
		}
		require.Eventually(t, func() bool { p.soon(); return p.open() < before+burst/2 }, 2*time.Minute, 200*time.Millisecond)
	}
	require.Eventually(t, func() bool { p.soon(); return p.open() == 0 }, 3*time.Minute, 200*time.Millisecond, "all jobs to end")
	p.forge.SetFaults(forgetest.Faults{})
	p.rests("as many idle runners as wanted")
	p.judged(bursts * burst)
}

// While the forge answers nothing but errors, idle runners stay, a job that runs keeps its runner, and people are served;
// then all is as it should be.
func TestForge_away(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 2, forgetest.Options{Seed: 8})
	job := p.queue(1, untilEnded)[0]
	p.busy()
	var online, ready int
	if !assert.Eventually(t, func() bool { // a runner whose report is lost is seen by the round of the next minute
		p.soon()
		online, ready = p.forge.Idle(), p.count("t.name = 'runners' AND state = 'ready'")
		return online == 2 && ready == 2
	}, time.Minute, 200*time.Millisecond) {
		require.FailNow(t, "no other in its place", "%d idle at the forge, %d ready, names %v", online, ready, p.forge.RunnerNames())
	}
	idle := p.forge.RunnerNames()
	p.forge.SetFaults(forgetest.Faults{Errors: 1, Lose: 1})
	failing := func() bool {
		f, err := p.first.Client.Forge(t.Context(), "acme")
		require.NoError(t, err)
		return f.Status.Error != "" && !f.Status.Running
	}
	for range 3 { // minutes, as rounds have it
		asked := p.forge.Requests("runners")
		coderdtest.Eventually(t, "a round that fails", func() bool { p.soon(); return p.forge.Requests("runners") > asked && failing() })
		claim, err := p.first.Client.Claim(t.Context(), sdk.ClaimRequest{Template: "people", Preset: "default", Mode: "prefer"})
		require.NoError(t, err)
		_, err = p.first.Client.DeleteWorkspace(t.Context(), claim.Name, false)
		require.NoError(t, err)
		require.Equal(t, 1, p.count("t.name = 'runners' AND state = 'claimed'"))
		require.Equal(t, 2, p.count("t.name = 'runners' AND state = 'ready'"))
		require.Zero(t, p.count("t.name = 'runners' AND state IN ('draining', 'deleting', 'deleted')"))
		require.Equal(t, idle, p.forge.RunnerNames())
	}
	p.forge.SetFaults(forgetest.Faults{})
	p.forge.End(job)
	p.rests("all as it should be")
	p.judged(1)
}

// A forge that asks to be left alone is, until then, and its entity says so. Nothing warm goes meanwhile.
func TestForge_rateLimited(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 2, forgetest.Options{Seed: 8})
	p.forge.LimitFor(time.Hour)
	coderdtest.Eventually(t, "the limit to be heard of", func() bool {
		_, err := p.store.Pool.Exec(t.Context(), "UPDATE forge_status SET asked_at = asked_at - interval '1 minute' WHERE wait_until IS NULL")
		require.NoError(t, err)
		f, err := p.first.Client.Forge(t.Context(), "acme")
		require.NoError(t, err)
		return f.Status.WaitUntil != nil
	})
	asked := p.forge.Requests("runners")
	shown := e2etest.Run(t.Context(), t, as(t, p.first), "forge", "show", "acme")
	require.Zero(t, shown.Status, shown.Stderr)
	require.Contains(t, shown.Stdout, "the forge's rate limit is reached, until ")
	require.Regexp(t, `Asks again +in `, shown.Stdout)
	// Rounds are looked for each second; in the time of a few of them, none is made.
	passes := func() (n int64) {
		require.NoError(t, p.store.Pool.QueryRow(t.Context(), "SELECT seq FROM reconcile_fence").Scan(&n))
		return n
	}
	began := passes()
	coderdtest.Eventually(t, "some ticks", func() bool { return passes() > began+4 })
	require.Equal(t, asked, p.forge.Requests("runners"))
	require.Equal(t, 2, p.count("t.name = 'runners' AND state = 'ready'"))
}

// A person's delete asks the forge first: of a runner at a job it is refused at once, an idle one is unregistered.
func TestForge_delete(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 1, forgetest.Options{Seed: 8})
	works := e2etest.Run(t.Context(), t, as(t, p.first), "forge", "wait", "acme")
	require.Zero(t, works.Status, works.Stderr)
	job := p.queue(1, untilEnded)[0]
	served := e2etest.Run(t.Context(), t, as(t, p.first), "forge", "wait", "acme", "--for", "served")
	require.Zero(t, served.Status, served.Stderr)
	busy := p.busy()
	refused := e2etest.Run(t.Context(), t, as(t, p.first), "workspace", "delete", "--yes", busy)
	require.NotZero(t, refused.Status)
	require.Contains(t, refused.Stderr, "busy")
	require.Equal(t, 1, p.count("t.name = 'runners' AND state = 'claimed'"))

	var idle string
	coderdtest.Eventually(t, "an idle one", func() bool {
		return p.forge.Idle() == 1 && p.store.Pool.QueryRow(t.Context(), `SELECT w.name FROM workspaces w
			JOIN templates t ON t.id = w.template_id WHERE t.name = 'runners' AND w.state = 'ready'`).Scan(&idle) == nil
	})
	deleted := e2etest.Run(t.Context(), t, as(t, p.first), "workspace", "delete", "--yes", idle)
	require.Zero(t, deleted.Status, deleted.Stderr)
	require.False(t, slices.Contains(p.forge.RunnerNames(), idle), "it is unregistered when the command returns")
	p.forge.End(job)
	p.rests("all as it should be")
	p.judged(1)
}
