package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pools of the kill tests: cheap workspaces whose setup takes a moment, so that kills meet all kinds of work.
const pools = `
templates:
  - name: chaos
    provider: local
    boot_timeout: 1m
    spec:
      setup: [sh, -c, "echo $PREWARM_WORKSPACE >name; sleep 0.2"]
      command: [sleep, infinity]
      readiness: {setup: true}
      stop_grace: 1s
    presets:
      - name: one
        prebuilds: {instances: 4}
      - name: two
        prebuilds: {instances: 4}
`

// Server, PostgreSQL and single backends are killed at random moments while visitors claim and release. Afterwards
// everything is as the visitors were told, every pool is full, and the machine holds nothing else.
func TestKill(t *testing.T) {
	t.Parallel()
	r := random(t)
	w := newWorld(t)
	apply(t, w.client, pools)
	all, stop := visitors(t, 3, r, w.client, "one", "two")

	kills := map[string]int{}
	for done := 0; done < rounds(t) && !t.Failed(); {
		pause(r, 1200*time.Millisecond)
		switch r.IntN(4) {
		case 0:
			w.killServer()
			kills["server"]++
			done++
			for r.IntN(3) == 0 && done < rounds(t) { // also before it is ready, some times over
				w.startAndKill(50*time.Millisecond + time.Duration(r.Int64N(int64(400*time.Millisecond))))
				kills["server while it starts"]++
				done++
			}
			w.start()
		case 1:
			if database, ok := postmaster(w.dir); ok {
				w.killPostmaster()
				w.killServer() // both at once: nobody is there to start PostgreSQL again
				require.False(t, database.alive())
				w.start()
				kills["PostgreSQL and server"]++
				done++
			}
		case 2:
			if w.killPostmaster() {
				kills["PostgreSQL"]++
				done++
			}
		case 3:
			if w.killBackend(t, r) {
				kills["backend"]++
				done++
			}
		}
		eventually(t, "the database is back", func() bool { return ready(w) })
		verifyJobs(t, w.store())
	}
	// On a slow machine all kills may have come before anybody was given something, and the test would show nothing.
	after := w.store()
	require.True(t, eventuallyOK(func() bool {
		return number(t, after, "SELECT count(*) FROM claims WHERE state = 'released'") > 0
	}), "nobody gives anything back")
	began := time.Now()
	stop()
	converge(t, w.client)
	t.Logf("converged %.1f s after the last kill", time.Since(began).Seconds())

	verifyRecords(t, w.client, all)
	store := w.store()
	verifyClaims(t, store, all)
	verifyHistory(t, store)
	verifyMachine(t, w.client, w.dir+"/local")
	report(t, kills, all, number(t, store, "SELECT count(*) FROM workspaces"))
}

func ready(w *world) bool {
	_, err := w.client.Presets(context.Background())
	return err == nil
}

func report(t *testing.T, kills map[string]int, all []*visitor, created int) {
	t.Helper()
	claims, releases, misses, again := 0, 0, 0, 0
	for _, v := range all {
		claims += len(v.holds) + len(v.released)
		releases += len(v.released)
		misses += v.misses
		again += v.again
	}
	t.Logf("kills: %v", kills)
	t.Logf("%d claims, %d of them released; %d misses; %d requests had no answer and were sent again; %d workspaces made",
		claims, releases, misses, again, created)
	require.Positive(t, claims, "nobody claimed anything: the test shows nothing")
	require.Positive(t, releases, "nobody released anything: the test shows nothing")
}
