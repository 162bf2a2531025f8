package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
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
func forgeJobs(ctx context.Context, b *bench) error {
	const burst = 20
	jobs, every := 500, 5*time.Second
	if b.quick {
		jobs, every = 60, 3*time.Second
	}
	runner := filepath.Join(b.scratch, "runner")
	build := exec.CommandContext(ctx, "go", "build", "-o", runner, "github.com/prewarm-dev/prewarm/coderd/demand/forgetest/runner")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build runner: %w: %s", err, out)
	}
	cold := 0.0
	for _, c := range []struct {
		name   string
		warm   int
		faults forgetest.Faults
	}{{"cold", 0, forgetest.Faults{}}, {"warm", burst, forgetest.Faults{}}, {"trouble", burst, trouble}} {
		waits, err := b.forgeRound(ctx, runner, c.warm, jobs, burst, every, c.faults)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		half := float64(quantile(waits, 0.5).Microseconds()) / 1000
		if c.warm == 0 {
			line("forge."+c.name+".wait.p50", half, "ms", 0, "")
			cold = half
		} else {
			line("forge."+c.name+".wait.p50", half, "ms", cold, "cold")
		}
		line("forge."+c.name+".wait.p99", float64(quantile(waits, 0.99).Microseconds())/1000, "ms", 0, "")
	}
	return nil
}

// forgeRound runs all jobs on a plant of their own, and returns how long each waited.
func (b *bench) forgeRound(
	ctx context.Context, runner string, warm, jobs, burst int, every time.Duration, faults forgetest.Faults,
) ([]time.Duration, error) {
	p, err := b.plant(ctx, runner, warm)
	if err != nil {
		return nil, err
	}
	defer p.stop(ctx)
	if err := p.rest(ctx); err != nil {
		return nil, err
	}
	p.forge.SetFaults(faults)
	for queued := 0; queued < jobs; queued += burst {
		work := make([]forgetest.Work, min(burst, jobs-queued))
		for i := range work {
			work[i] = forgetest.Work{Labels: []string{"self-hosted", "Linux"}, For: time.Second}
		}
		p.forge.Queue(work...)
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := until(ctx, 5*time.Minute, "all jobs end", func() (bool, error) { return p.open() == 0, nil }); err != nil {
		return nil, fmt.Errorf("%d jobs are open: %w", p.open(), err)
	}
	p.forge.SetFaults(forgetest.Faults{})
	if err := p.rest(ctx); err != nil {
		return nil, err
	}
	return p.judged()
}

// plant makes the database, the server, the forge, and what connects them, by the API as people do it.
func (b *bench) plant(ctx context.Context, runner string, warm int) (*plant, error) {
	f, err := b.fleet(ctx, 0, 0)
	if err != nil {
		return nil, err
	}
	p := &plant{fleet: f, warm: warm}
	if p.forge, err = forgetest.Start(ctx, forgetest.Options{Roots: []string{"orgs/acme"}, Token: "bench-token", Seed: 1}); err != nil {
		f.drop()
		return nil, err
	}
	if p.server, err = b.serve(ctx, f, "forge", 15*time.Second); err != nil {
		p.forge.Close()
		f.drop()
		return nil, err
	}
	for _, step := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPut, "forges/credentials/acme", sdk.PutForgeCredential{Kind: "github", URL: p.forge.API, Token: "bench-token"}},
		{http.MethodPut, "forges/acme", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acme"}},
		{http.MethodPost, "forges/acme/webhook", nil},
		{http.MethodPost, "apply", sdk.ApplyRequest{Document: fmt.Sprintf(runnersOf, runner, warm), File: "bench.yaml"}},
	} {
		if err := p.call(ctx, step.method, step.path, step.body); err != nil {
			p.stop(ctx)
			return nil, err
		}
	}
	return p, nil
}

func (p *plant) call(ctx context.Context, method, path string, body any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.server.address+"/api/v1/"+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.fleet.token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if said, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, said)
	}
	return nil
}

// rest waits until the forge has exactly the idle runners that the pool wants, and they are ready here too.
func (p *plant) rest(ctx context.Context) error {
	err := until(ctx, 3*time.Minute, "as many idle runners as wanted", func() (bool, error) {
		var live, ready int
		err := p.fleet.store.Pool.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state = 'ready') FROM workspaces
			WHERE state <> 'deleted'`).Scan(&live, &ready)
		return live == p.warm && ready == p.warm && p.forge.Idle() == p.warm && len(p.forge.RunnerNames()) == p.warm, err
	})
	if err != nil {
		return fmt.Errorf("%d idle of %d at the forge, %d wanted: %w", p.forge.Idle(), len(p.forge.RunnerNames()), p.warm, err)
	}
	return nil
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
func (p *plant) judged() ([]time.Duration, error) {
	if j := p.forge.Judge(); len(j.KilledBusy) > 0 || len(j.RemovedBusy) > 0 {
		return nil, fmt.Errorf("runners went while at a job: killed %v, removed %v", j.KilledBusy, j.RemovedBusy)
	}
	var waits []time.Duration
	for _, r := range p.forge.Records() {
		if r.Conclusion != "success" || r.Runner == "" || r.HandedOut != 1 {
			return nil, fmt.Errorf("job %d ended with %q on %q, after %d runners had it", r.ID, r.Conclusion, r.Runner, r.HandedOut)
		}
		waits = append(waits, r.Wait())
	}
	return waits, nil
}

// stop lets the workspaces go first: those of `local` outlive the server.
func (p *plant) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	p.forge.SetFaults(forgetest.Faults{})
	_ = p.call(ctx, http.MethodDelete, "templates/runners", nil)
	_ = until(ctx, time.Minute, "workspaces are gone", func() (bool, error) {
		var live int
		err := p.fleet.store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state <> 'deleted'").Scan(&live)
		return live == 0, err
	})
	p.server.stop()
	p.forge.Close()
	p.fleet.drop()
}
