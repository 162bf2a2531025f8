package chaos_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// stopDeadline bounds a stop in order: 10 s for jobs, 5 s for requests, and some for a busy machine.
const stopDeadline = 25 * time.Second

// G6: on SIGTERM, a replica with creates that take longer than it may ends with status 0, and its leases are free at
// once, rather than at their end.
func TestStopDuringCreates(t *testing.T) {
	t.Parallel() // it mostly waits
	url := dbtest.URL(t)
	store := openStore(t, url)
	options := e2etest.Options{PostgresURL: url, DataDir: folder(t), Replica: "stopped", Tick: time.Second}
	server := e2etest.Start(t, options)
	goOn := filepath.Join(public(t), "go-on") // what the quick ones wait for, so that all are under way at once
	apply(t, server.Client, fmt.Sprintf(`
templates:
  - name: slow
    provider: sim
    spec: {create_latency: 60s}
    presets:
      - name: default
        prebuilds: {instances: 5}
  - name: quick
    provider: local
    spec:
      setup: [sh, -c, "until test -e %s; do sleep 0.1; done; sleep 1"]
      command: [sleep, infinity]
    presets:
      - name: default
        prebuilds: {instances: 3}
`, goOn))
	running := func(template string, attempt int) int {
		return number(t, store, `SELECT count(*) FROM jobs j JOIN workspaces w ON w.id = j.workspace_id
			JOIN templates t ON t.id = w.template_id
			WHERE j.state = 'running' AND t.name = $1 AND j.attempt = $2`, template, attempt)
	}
	eventually(t, "creates are under way", func() bool { return running("slow", 1) == 5 && running("quick", 1) == 3 })

	write(t, filepath.Dir(goOn), filepath.Base(goOn), "")
	began := time.Now()
	assert.Zero(t, server.Stop(), "exit status")
	assert.Less(t, time.Since(began), stopDeadline)
	assert.Zero(t, number(t, store, "SELECT count(*) FROM jobs WHERE state = 'running'"), "leases were returned")
	assert.Zero(t, number(t, store, "SELECT count(*) FROM jobs WHERE failures > 0"), "a stop is no failure")
	assert.Zero(t, number(t, store, "SELECT count(*) FROM replicas WHERE NOT stopping"))
	verifyJobs(t, store)

	options.Replica = "next"
	next := e2etest.Start(t, options)
	eventually(t, "the next replica goes on with the creates", func() bool { return running("slow", 2) == 5 })
	eventually(t, "what could be finished is ready", func() bool {
		p, err := next.Client.Preset(context.Background(), "quick", "default")
		return err == nil && settled(p.Counts)
	})
	verifyHistory(t, store)
}

// A replica is frozen until its leases are over and another has done its work, and then goes on where it was (I5). It
// has a request of a visitor in its hands, which the visitor has meanwhile sent to the other replica.
func TestFrozenReplica(t *testing.T) {
	t.Parallel() // it mostly waits
	r := random(t)
	dir := public(t)
	url, root, goOn := dbtest.URL(t), filepath.Join(dir, "workspaces"), filepath.Join(dir, "go-on")
	store := openStore(t, url)
	options := e2etest.Options{PostgresURL: url, Tick: time.Second}
	one := e2etest.Start(t, options)
	apply(t, one.Client, fmt.Sprintf(`
providers:
  - {name: shared, kind: local, config: {root: %s}}
templates:
  - name: chaos
    provider: shared
    spec:
      setup: [sh, -c, "until test -e %s; do sleep 0.1; done; sleep 1"]
      command: [sleep, infinity]
    presets:
      - name: one
        prebuilds: {instances: 4}
      - name: two
        prebuilds: {instances: 4}
`, root, goOn))
	frozenJobs := func() int {
		return number(t, store, "SELECT count(*) FROM jobs WHERE state = 'running' AND leased_by = $1", one.Replica)
	}
	eventually(t, "the first replica has work in its hands", func() bool { return frozenJobs() >= 4 })
	one.Signal(syscall.SIGSTOP)
	frozen := frozenJobs()
	write(t, dir, filepath.Base(goOn), "") // it was not to be done before the replica is frozen
	two := e2etest.Start(t, options)
	all, stop := visitors(t, 2, r, two.Client, "one", "two")

	request := sdk.ClaimRequest{Template: "chaos", Preset: "one", Mode: "prefer", Wait: "1m", Key: "sent twice"}
	hasty, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err := one.Client.Claim(hasty, request)
	require.Error(t, err, "a frozen replica answers nothing")
	var claim sdk.Claim
	again := visitor{t: t, name: "twice", client: two.Client}
	require.True(t, again.ask("claim again", func(ctx context.Context, _ bool) (err error) {
		claim, err = two.Client.Claim(ctx, request)
		return err
	}))
	require.NotNil(t, claim.WorkspaceID)
	again.moveIn(request.Key, claim)

	eventually(t, "the leases of the frozen replica are over and its work is done", func() bool {
		return frozenJobs() == 0 && number(t, store, "SELECT count(*) FROM workspaces WHERE state = 'ready'") > 0
	})
	one.Signal(syscall.SIGCONT)
	_, err = one.Client.Presets(context.Background())
	require.NoError(t, err, "the replica goes on")
	stop()
	converge(t, one.Client)
	t.Logf("%d jobs were in the frozen replica's hands", frozen)

	all = append(all, &again)
	verifyRecords(t, two.Client, all)
	verifyClaims(t, store, all)
	verifyHistory(t, store)
	// A create that was frozen on its way to the provider makes its workspace when it wakes, however long that has been
	// deleted. Such an orphan is removed by the sweep of the next minute (I4).
	t.Logf("left by late work: %v", machineFaults(t, two.Client, root))
	eventually(t, "orphans are swept", func() bool { return len(machineFaults(t, two.Client, root)) == 0 })
}
