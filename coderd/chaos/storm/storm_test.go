package storm_test

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/judge"
	"github.com/prewarm-dev/prewarm/coderd/chaos/recordtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	replicaCount = 3
	pool         = 6  // of each preset
	maximum      = 26 // less than clients would hold with full pools, so that it is reached
	// lateGrace is how long what a frozen replica created late may stay: a sweep comes each minute and has half of one.
	lateGrace = 150 * time.Second
)

//go:embed testdata/crowd.sql
var crowdSQL string

// world is the installation and all that can be done to it.
type world struct {
	t        testing.TB
	cloud    string // the sim's folder
	postgres *postgres
	replicas []*replica
	older    string // path of the binary before; empty: there is none

	rolling sync.Mutex
	began   time.Time
	mu      sync.Mutex
	done    map[string]int
}

// Everything goes wrong, over and over, while clients claim and release. What they were told holds, nothing is left
// behind, no limit is passed; and when it is over, all is well again without a person (I1, I2, I3, I4, I6, I7).
func TestStorm(t *testing.T) {
	t.Parallel()
	n, length := seed(t), length(t)
	kept := recordtest.Run{Command: fmt.Sprintf("make chaos MINUTES=%g SEED=%d", length.Minutes(), n)}
	recordtest.Keep(t, &kept)
	dice := rand.New(rand.NewPCG(n, 0))
	w := newWorld(t, dice, length)
	var without []string
	if !w.postgres.small {
		without = append(without, "fill disk")
	}
	if w.older == "" {
		without = append(without, "roll replicas")
	}
	plan := schedule(dice, length, without...)

	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	journal := make(chan []judge.Event, 1)
	go func() { journal <- follow(watching, t, w.cloud) }()
	visiting, stopVisiting := context.WithCancel(context.Background())
	defer stopVisiting()
	visitors := newClients(t, w.replicas, "one", "two")
	visited := make(chan struct{})
	go func() { defer close(visited); visitors.run(visiting, rand.New(rand.NewPCG(n, 1))) }()

	w.began = time.Now()
	w.inflict(context.Background(), plan)
	w.heal()
	require.True(t, slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.server != nil }), "no replica starts any more")
	healed := time.Now()
	stopVisiting()
	<-visited
	t.Logf("every client was answered %.1f s after the last fault", time.Since(healed).Seconds())
	store := w.postgres.store()
	w.converge(store)
	converged := time.Since(healed)
	w.awaitSweep(store)

	stopWatching()
	evidence := w.evidence(store, visitors, <-journal)
	verdict := judge.Judge(evidence)
	w.report(length, visitors, verdict, evidence, converged)
	kept.Length, kept.Claims, kept.Violations = fmt.Sprintf("%g min", length.Minutes()), len(evidence.Claims), len(verdict.Violations)
	for _, n := range w.done {
		kept.Faults += n
	}
	for _, wrong := range verdict.Violations {
		t.Errorf("%s\n%s", wrong, w.story(store, wrong, evidence))
	}
	excused := map[string]int{}
	for odd, when := range visitors.odd {
		lines, older := w.logged(anyID.FindString(odd))
		if older {
			excused[anyState.FindString(lines)]++
			continue
		}
		t.Errorf("an answer that nobody should get, at %s: %s\n%s", when, odd, lines)
	}
	if len(excused) > 0 {
		t.Logf("the binary before gave answers that nobody should get, since the database said: %v", excused)
	}
	require.Positive(t, verdict.Released, "nobody got anything: the test shows nothing")
}

func newWorld(t *testing.T, dice *rand.Rand, length time.Duration) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "storm-") // short: the path of a socket must fit in
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // PostgreSQL runs as somebody else
	t.Cleanup(func() { eventually(t, "the folder is removed", func() bool { return os.RemoveAll(dir) == nil }) })
	w := &world{t: t, cloud: filepath.Join(dir, "cloud"), done: map[string]int{}, older: olderBinary(t)}
	w.postgres = startPostgres(t, dice, filepath.Join(dir, "pg"), length)
	w.replicas = startReplicas(t, replicaCount, dir, w.postgres.address(), w.older)
	for _, r := range w.replicas {
		r.older = w.older != ""
	}
	store := w.postgres.store()
	_, err = store.Pool.Exec(context.Background(), crowdSQL)
	require.NoError(t, err)
	_, err = w.replicas[0].server.Client.Apply(context.Background(), sdk.ApplyRequest{Document: w.document()})
	require.NoError(t, err)
	w.converge(store)
	return w
}

// document is a cloud that takes its time and fails now and then. How it hangs and lies is for other tests: here nothing
// must reach the hard limit (C8), which only a person can lift.
func (w *world) document() string {
	return fmt.Sprintf(`
providers:
  - name: cloud
    kind: sim
    config: {root: %s}
    maximum: %d
templates:
  - name: chaos
    provider: cloud
    boot_timeout: 30s
    spec:
      create_latency: 50ms-400ms
      ready_latency: 100ms-500ms
      delete_latency: 20ms-200ms
      fail: 0.02
    presets:
      - name: one
        prebuilds: {instances: %d}
      - name: two
        prebuilds: {instances: %d}
`, w.cloud, maximum, pool, pool)
}

// heal ends what is still wrong, and brings every replica to this binary.
func (w *world) heal() {
	for _, r := range w.replicas {
		r.toDB.heal()
		r.toIt.heal()
		if r.older || r.server == nil {
			r.stop()
			r.older = false
			r.start("")
		}
	}
}

// converge waits until every pool is full and nothing is under way (I6).
func (w *world) converge(store *database.Store) {
	w.t.Helper()
	ctx := context.Background()
	var presets []sdk.Preset
	ok := assert.Eventually(w.t, func() bool {
		var err error
		if presets, err = w.replicas[0].server.Client.Presets(ctx); err != nil {
			return false
		}
		for _, p := range presets {
			c := p.Counts
			if c.Eligible != c.Desired || c.Actual != c.Desired || c.Starting+c.Stopping+c.Deleting+c.Outdated+
				c.Extraneous+c.Expired+c.Quarantined+c.Waiting != 0 {
				return false
			}
		}
		var going int // claimed ones that were released are in no count of a preset
		err = store.Pool.QueryRow(ctx, `SELECT count(*) FROM workspaces
			WHERE state NOT IN ('ready', 'claimed', 'deleted')`).Scan(&going)
		return err == nil && going == 0 && len(presets) == 2
	}, patience, poll)
	if !ok {
		w.t.Fatalf("I6: the pools did not converge: %+v", presets)
	}
}

// awaitSweep waits until what was created late is removed, for as long as that may take.
func (w *world) awaitSweep(store *database.Store) {
	for deadline := time.Now().Add(lateGrace); time.Now().Before(deadline); rest(context.Background(), time.Second) {
		left := w.left()
		var live int
		err := store.Pool.QueryRow(context.Background(),
			"SELECT count(*) FROM workspaces WHERE state <> 'deleted'").Scan(&live)
		if err == nil && live == len(left) {
			return
		}
	}
}

// left is the provider's own listing.
func (w *world) left() map[string]uuid.UUID {
	cloud, err := sim.New(sim.Options{Root: w.cloud})
	require.NoError(w.t, err)
	all, err := cloud.All()
	require.NoError(w.t, err)
	left := map[string]uuid.UUID{}
	for _, r := range all {
		left[r.ProviderID] = r.Tags.WorkspaceID
	}
	return left
}

func (w *world) evidence(store *database.Store, visitors *clients, events []judge.Event) judge.Evidence {
	w.t.Helper()
	ctx := context.Background()
	e := judge.Evidence{
		Events: events, Left: w.left(), Workspaces: map[uuid.UUID]judge.Workspace{}, Maximum: maximum, LateGrace: lateGrace,
	}
	for _, c := range visitors.records {
		e.Claims = append(e.Claims, *c)
	}
	for _, r := range w.replicas {
		e.Freezes = append(e.Freezes, r.freezes...)
	}
	rows, err := store.Pool.Query(ctx, "SELECT id, state::text, claim_id, created_at, deleted_at FROM workspaces")
	require.NoError(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var s judge.Workspace
		var claim *uuid.UUID
		var deleted *time.Time
		require.NoError(w.t, rows.Scan(&id, &s.State, &claim, &s.CreatedAt, &deleted))
		if claim != nil {
			s.ClaimID = *claim
		}
		if deleted != nil {
			s.DeletedAt = *deleted
		}
		e.Workspaces[id] = s
	}
	require.NoError(w.t, rows.Err())
	require.NoError(w.t, store.Pool.QueryRow(ctx, "SELECT coalesce(max(live), 0) FROM chaos.crowds").Scan(&e.Crowd))
	return e
}

func (w *world) report(length time.Duration, c *clients, v judge.Verdict, e judge.Evidence, converged time.Duration) {
	var s strings.Builder
	number := 0
	for _, kind := range sorted(slices.Collect(maps.Keys(w.done))) {
		number += w.done[kind]
		fmt.Fprintf(&s, "  %3d x %s\n", w.done[kind], kind)
	}
	starts := 0
	for _, r := range w.replicas {
		starts += r.starts
	}
	w.t.Logf(`%d faults in %s:
%s%d claims asked for in %d requests: %d got a workspace, %d a miss; %d released; all answered; %d not asked for
%d workspaces made; at most %d at the provider at a time by its journal, %d by the installation's own count; maximum %d
%d created late by a replica that had been frozen (%d freezes), the longest for %.1f s; none is left
%d starts of a replica failed, as its database was away for longer than it waits
longest time without an answer to any claim: %.1f s, from %.1f s on; longest wait of one client: %.1f s
converged %.1f s after the last fault
%d violations`,
		number, length, s.String(), len(e.Claims), c.asked.Load(), v.Claimed, v.Missed, v.Released, c.turned, len(e.Workspaces),
		v.Most, e.Crowd, maximum, v.Late, len(e.Freezes), v.LongestLate.Seconds(), starts, v.LongestOutage.Seconds(),
		v.OutageFrom.Sub(w.began).Seconds(), v.LongestWait.Seconds(), converged.Seconds(), len(v.Violations))
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
