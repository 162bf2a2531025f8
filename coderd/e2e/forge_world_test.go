package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// plant is servers with a pool of runners and a pool of people, and the runners' forge, over HTTP.
type plant struct {
	t       *testing.T
	forge   *forgetest.Forge
	store   *database.Store
	options e2etest.Options
	first   *e2etest.Server
	idle    int
	died    bool // a server has, and its leases need not be waited for
}

// where is where runners are, and what else their agents are told.
type where struct{ providers, provider, spec, agent string }

// newPlant has its runners at the server's own machine.
func newPlant(t *testing.T, idle int, options forgetest.Options) *plant {
	t.Helper()
	return newPlantAt(t, idle, options, where{provider: "local", spec: "{command: [sleep, infinity]}"})
}

// newPlantAt starts one server, and connects it to its forge by the API, as people do it.
func newPlantAt(t *testing.T, idle int, options forgetest.Options, at where) *plant {
	t.Helper()
	ctx := t.Context()
	runner := filepath.Join(e2etest.Public(t), "runner")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", runner,
		"github.com/prewarm-dev/prewarm/coderd/demand/forgetest/runner").CombinedOutput()
	require.NoError(t, err, "%s", out)
	options.Roots, options.Token = []string{"orgs/acme"}, "token-of-tests"
	p := &plant{t: t, idle: idle}
	p.forge, err = forgetest.Start(context.WithoutCancel(ctx), options)
	require.NoError(t, err)
	t.Cleanup(p.forge.Close)
	url := dbtest.URL(t)
	p.store = dbtest.OpenURL(t, url, database.Options{})
	p.options = e2etest.Options{PostgresURL: url, DataDir: t.TempDir(), Replica: "first", Tick: time.Second}
	p.first = e2etest.Start(t, p.options)
	t.Cleanup(p.clear)
	c := p.first.Client
	_, err = c.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", URL: p.forge.API, Token: "token-of-tests"})
	require.NoError(t, err)
	_, err = c.PutForge(ctx, "acme", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acme"})
	require.NoError(t, err)
	_, err = c.InstallForgeHook(ctx, "acme")
	require.NoError(t, err)
	_, err = c.Apply(ctx, sdk.ApplyRequest{Document: at.providers + fmt.Sprintf(`
templates:
  - name: runners
    provider: %s
    boot_timeout: 2m
    agent: {runner: [%q]%s}
    spec: %s
    presets:
      - name: linux
        prebuilds: {instances: %d}
        runner: {forge: acme, labels: [self-hosted, linux, x64], maximum: 16}
  - name: people
    provider: local
    spec: {command: [sleep, infinity]}
    presets: [{name: default, prebuilds: {instances: 2}}]
`, at.provider, runner, at.agent, at.spec, idle)})
	require.NoError(t, err)
	p.rests("a warm pool")
	return p
}

// clear lets the workspaces go: those of `local` outlive their server.
func (p *plant) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p.forge.SetFaults(forgetest.Faults{})
	for _, sql := range []string{
		"UPDATE forge_runners SET abandoned_at = now()", "UPDATE jobs SET due_at = now() WHERE state = 'pending'",
		"UPDATE templates SET deleted_at = now()",
	} {
		if _, err := p.store.Pool.Exec(ctx, sql); err != nil {
			p.t.Error(err)
			return
		}
	}
	for ctx.Err() == nil && p.count("state <> 'deleted' AND state <> 'claimed'") > 0 {
		timer := time.NewTimer(100 * time.Millisecond)
		<-timer.C
	}
}

func (p *plant) count(where string) (n int) {
	p.t.Helper()
	require.NoError(p.t, p.store.Pool.QueryRow(context.Background(), `SELECT count(*) FROM workspaces w
		JOIN templates t ON t.id = w.template_id WHERE `+where).Scan(&n))
	return n
}

// soon has minutes go by for surplus runners (P8), and for what the forge was not asked after.
func (p *plant) soon() {
	later := []string{
		"UPDATE preset_status SET shrunk_at = shrunk_at - interval '1 minute' WHERE shrunk_at IS NOT NULL",
		"UPDATE forge_jobs SET seen_at = seen_at - interval '3 minutes', asked_at = asked_at - interval '3 minutes' WHERE state <> 'completed'",
		"UPDATE forge_status SET asked_at = asked_at - interval '1 minute', wait_until = wait_until - interval '1 minute', runners_wait_until = runners_wait_until - interval '1 minute'",
	}
	if p.died { // else a round that is under way would lose its lease, record nothing, and keep others waiting for the rest of it
		later = append(later, "UPDATE forge_status SET leased_until = leased_until - interval '1 minute'")
	}
	for _, sql := range later {
		_, err := p.store.Pool.Exec(context.Background(), sql)
		if database.IsDeadlock(err) {
			return // with a server, which locks the same rows in an order of its own: conditions call this again
		}
		require.NoError(p.t, err)
	}
}

// rests waits until the forge has exactly the idle runners that the pool wants, and they are ready here too.
func (p *plant) rests(what string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.soon()
		return p.forge.Idle() == p.idle && len(p.forge.RunnerNames()) == p.idle && p.open() == 0 &&
			p.count("t.name = 'runners' AND state = 'ready'") == p.idle && p.count("t.name = 'runners' AND state <> 'deleted'") == p.idle
	}, 3*time.Minute, 200*time.Millisecond, what)
}

// open counts the jobs that have not ended.
func (p *plant) open() (n int) {
	for _, r := range p.forge.Records() {
		if r.State != forge.Completed {
			n++
		}
	}
	return n
}

// judged: every job ended well, once, on a runner, and none was at a job when it was removed or killed.
func (p *plant) judged(jobs int) {
	p.t.Helper()
	judge := p.forge.Judge()
	require.Empty(p.t, judge.KilledBusy)
	require.Empty(p.t, judge.RemovedBusy)
	records := p.forge.Records()
	require.Len(p.t, records, jobs)
	for _, r := range records {
		require.Equal(p.t, "success", r.Conclusion, "job %d", r.ID)
		require.NotEmpty(p.t, r.Runner, "job %d", r.ID)
		require.Equal(p.t, 1, r.HandedOut, "job %d", r.ID)
	}
	coderdtest.Eventually(p.t, "all jobs to be known as completed", func() bool {
		p.soon()
		var n int
		require.NoError(p.t, p.store.Pool.QueryRow(context.Background(),
			"SELECT count(*) FROM forge_jobs WHERE state = 'completed' AND conclusion = 'success'").Scan(&n))
		return n == jobs
	})
}

func (p *plant) queue(n int, runs time.Duration) (ids []int64) {
	work := make([]forgetest.Work, n)
	for i := range work {
		work[i] = forgetest.Work{Labels: []string{"self-hosted", "Linux"}, For: runs}
	}
	return p.forge.Queue(work...)
}

// untilEnded is for how long a job runs that the test ends, when it has seen what it is to see while the job runs.
const untilEnded = time.Hour

// busy waits for a runner that is at a job, and claimed by it.
func (p *plant) busy() (name string) {
	p.t.Helper()
	coderdtest.Eventually(p.t, "a claim by a job", func() bool {
		return p.store.Pool.QueryRow(context.Background(), `SELECT w.name FROM workspaces w JOIN templates t ON t.id = w.template_id
			WHERE t.name = 'runners' AND w.state = 'claimed' LIMIT 1`).Scan(&name) == nil
	})
	return name
}
