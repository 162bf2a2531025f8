package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// runnersOf is the configuration of a pool of runners on this machine.
const runnersOf = `
templates:
  - name: runners
    provider: local
    boot_timeout: 2m
    agent: {runner: [%q]}
    spec: {command: [sleep, infinity]}
    presets:
      - name: linux
        prebuilds: {instances: %d}
        runner: {forge: acme, labels: [self-hosted, linux, x64], maximum: 60}
`

// trouble is what forges and networks are like on a bad day.
var trouble = forgetest.Faults{
	Errors: 0.05, Slow: 0.1, SlowFor: 500 * time.Millisecond, Lose: 0.05, Repeat: 0.1, Delay: 0.2, DelayBy: 2 * time.Second,
}

// plant is a server with one pool of runners, and their forge.
type plant struct {
	forge  *forgetest.Forge
	fleet  *fleet
	server *replica
	warm   int // runners that the pool keeps idle
}

// forgeJobs measures from a job's queueing at the forge to its start, by the forge's clock: webhook, inbox, match, pass,
// workspace, agent, registration, and the forge giving the job away. Warm, cold, and warm on a bad day. It fails where a
// job does not end well, runs twice, or a runner at a job is removed or killed, and where it does not come to rest with as
// many idle runners as the pool wants.
func forgeJobs(ctx context.Context, b *bench) {
	const burst = 20
	jobs, every := sized(b, 500, 60), sized(b, 5*time.Second, 3*time.Second)
	runner := b.program(ctx, "coderd/demand/forgetest/runner")
	cold := 0.0
	for _, c := range []struct {
		name   string
		warm   int
		faults forgetest.Faults
	}{{"cold", 0, forgetest.Faults{}}, {"warm", burst, forgetest.Faults{}}, {"trouble", burst, trouble}} {
		var waits []time.Duration
		within(c.name, func() { waits = b.forgeRound(ctx, runner, c.warm, jobs, burst, every, c.faults) })
		half := millis(waits, 0.5)
		if c.warm == 0 {
			line("forge."+c.name+".wait.p50", half, "ms", 0, "")
			cold = half
		} else {
			line("forge."+c.name+".wait.p50", half, "ms", cold, "cold")
		}
		line("forge."+c.name+".wait.p99", millis(waits, 0.99), "ms", 0, "")
	}
}

// forgeRound runs all jobs on a plant of their own, and returns how long each waited.
func (b *bench) forgeRound(
	ctx context.Context, runner string, warm, jobs, burst int, every time.Duration, faults forgetest.Faults,
) []time.Duration {
	p := b.plant(ctx, runner, warm)
	defer p.stop(ctx)
	p.rest(ctx)
	p.forge.SetFaults(faults)
	for queued := 0; queued < jobs; queued += burst {
		work := make([]forgetest.Work, min(burst, jobs-queued))
		for i := range work {
			work[i] = forgetest.Work{Labels: []string{"self-hosted", "Linux"}, For: time.Second}
		}
		p.forge.Queue(work...)
		pause(ctx, every)
	}
	if err := attempt(func() { until(ctx, 5*time.Minute, "all jobs end", func() bool { return p.open() == 0 }) }); err != nil {
		fail("%d jobs are open: %w", p.open(), err)
	}
	p.forge.SetFaults(forgetest.Faults{})
	p.rest(ctx)
	return p.judged()
}

// plant makes the database, the server, the forge, and what connects them, by the API as people do it.
func (b *bench) plant(ctx context.Context, runner string, warm int) *plant {
	f := b.fleet(ctx, 0, 0)
	p := &plant{fleet: f, warm: warm}
	p.forge = get(forgetest.Start(ctx, forgetest.Options{Roots: []string{"orgs/acme"}, Token: "bench-token", Seed: 1}))
	p.server = b.serve(ctx, f, "forge", 15*time.Second)
	err := attempt(func() {
		get(p.server.client.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", URL: p.forge.API, Token: "bench-token"}))
		get(p.server.client.PutForge(ctx, "acme", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acme"}))
		get(p.server.client.InstallForgeHook(ctx, "acme"))
		get(p.server.client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(runnersOf, runner, warm), File: "bench.yaml"}))
	})
	if err != nil {
		p.stop(ctx)
		must(err)
	}
	return p
}

// rest waits until the forge has exactly the idle runners that the pool wants, and they are ready here too.
func (p *plant) rest(ctx context.Context) {
	err := attempt(func() {
		until(ctx, 3*time.Minute, "as many idle runners as wanted", func() bool {
			return p.live(ctx) == p.warm && p.fleet.ready(ctx) == p.warm && p.forge.Idle() == p.warm &&
				len(p.forge.RunnerNames()) == p.warm
		})
	})
	if err != nil {
		fail("%d idle of %d at the forge, %d wanted: %w", p.forge.Idle(), len(p.forge.RunnerNames()), p.warm, err)
	}
}

func (p *plant) live(ctx context.Context) int {
	return one[int](ctx, p.fleet, "SELECT count(*) FROM workspaces WHERE state <> 'deleted'")
}

// open counts the jobs that have not ended.
func (p *plant) open() int {
	n := 0
	for _, r := range p.forge.Records() {
		if r.State != forge.Completed {
			n++
		}
	}
	return n
}

// judged is how long each job waited, or what was wrong.
func (p *plant) judged() []time.Duration {
	if j := p.forge.Judge(); len(j.KilledBusy) > 0 || len(j.RemovedBusy) > 0 {
		fail("runners went while at a job: killed %v, removed %v", j.KilledBusy, j.RemovedBusy)
	}
	var waits []time.Duration
	for _, r := range p.forge.Records() {
		if r.Conclusion != "success" || r.Runner == "" || r.HandedOut != 1 {
			fail("job %d ended with %q on %q, after %d runners had it", r.ID, r.Conclusion, r.Runner, r.HandedOut)
		}
		waits = append(waits, r.Wait())
	}
	return waits
}

// stop lets the workspaces go first: those of `local` outlive the server.
func (p *plant) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	p.forge.SetFaults(forgetest.Faults{})
	_ = attempt(func() {
		must(p.server.client.DeleteTemplate(ctx, "runners"))
		until(ctx, time.Minute, "workspaces are gone", func() bool { return p.live(ctx) == 0 })
	})
	p.server.stop()
	p.forge.Close()
	p.fleet.drop()
}
