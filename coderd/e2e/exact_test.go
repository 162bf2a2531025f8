package e2e_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const tick = 300 * time.Millisecond

// I3: three server processes over one database, in a storm of claims, releases, version changes, scaling, deprecation,
// deletions by people and nudges, on a cloud that fails and lies: the pools are exact at every commit, and everything
// that was ever created is accounted for. See replay for what is checked at a commit.
//
// With a maximum, what it leaves of the pools is part of the truth. Without one, passes over everything write less, and
// so find each other out by the fence alone.
func TestExact(t *testing.T) {
	t.Parallel()
	t.Run("unlimited", func(t *testing.T) { testExact(t, 0) })
	t.Run("maximum", func(t *testing.T) { testExact(t, 12) })
}

func testExact(t *testing.T, maximum int) {
	ctx := context.Background()
	s, store := newStorm(t, maximum)
	n := rounds(25)
	for range n {
		s.round(ctx)
	}
	s.calm(ctx)
	eventually(t, "what has a time to expire to be gone", func() bool { // it would be replaced while the rest is compared
		var left int
		require.NoError(t, store.Pool.QueryRow(ctx,
			"SELECT count(*) FROM workspaces WHERE state <> 'deleted' AND expires_at IS NOT NULL").Scan(&left))
		return left == 0
	})
	s.converged(ctx)

	stats := judge(t, readJournal(t, store))
	checkHistory(t, store)
	checkClouds(t, store, filepath.Join(s.config.root, "cloud"), filepath.Join(s.config.root, "capped"))
	fates := fates(t, store)
	require.Equal(t, stats.created, sum(fates), "created, by the journal and by the fates of history")
	require.Zero(t, fates["unexplained"])
	require.Equal(t, s.config.desired(), fates["there"])
	require.Equal(t, s.tally.hits+s.tally.waited, fates["claimed"], "claims, by what clients were told and by history")
	t.Logf("%d rounds: %+v\n%+v\nfates %v", n, s.tally, stats, fates)
	require.NotZero(t, stats.stale, "no pass was overtaken by a commit: the storm proves nothing")
}

// Created = initial + claims + replacements, to the workspace: while nobody asks for another number or version and
// nobody waits, nothing is ever created but the first filling and one for each that was claimed, removed by a person,
// failed, or expired (C9); and no pass lets anything else go.
func TestExact_createdIsInitialPlusClaimsPlusReplacements(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, store := newStorm(t, 0)
	s.steady = true
	for range rounds(25) {
		s.round(ctx)
	}
	s.calm(ctx)
	// What has a time to expire keeps it, so that something may be replaced while the journal is read.
	var counted stats
	var before, fate map[string]int
	for try := 0; try == 0 || try < 20 && !maps.Equal(before, fate); try++ {
		s.converged(ctx)
		before = fates(t, store)
		counted = judge(t, readJournal(t, store))
		fate = fates(t, store)
	}
	checkHistory(t, store)
	initial := s.config.desired()
	// C6: what was made for a prebuild that was to expire, when the calm took the TTL away.
	replaced := fate["removed"] + fate["failed"] + fate["C9"] + fate["C6"]
	require.Equal(t, initial, fate["there"])
	require.Equal(t, s.tally.hits, fate["claimed"], "claims, by what clients were told and by history")
	require.Equal(t, initial+fate["claimed"]+replaced, counted.created, "%v", fate)
	require.Equal(t, counted.created, sum(fate), "%v", fate)
	t.Logf("%+v: created %d = %d + %d claimed + %d replaced: %v", s.tally, counted.created, initial, fate["claimed"],
		replaced, fate)
}

// newStorm starts three servers over a new database with a journal, and fills the pools.
func newStorm(t *testing.T, maximum int) (*storm, *database.Store) {
	t.Helper()
	ctx := context.Background()
	seed := uint64(1)
	if given, err := strconv.ParseUint(os.Getenv("PREWARM_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("PREWARM_SEED=%d", seed)
	url := dbtest.URL(t)
	store := dbtest.OpenURL(t, url, database.Options{})
	keepJournal(t, store)
	s := &storm{
		t: t, store: store, servers: e2etest.StartAll(t, 3, e2etest.Options{PostgresURL: url, Tick: tick}),
		dice: rand.New(rand.NewPCG(seed, 0)), config: newConfig(t.TempDir(), maximum), removed: map[uuid.UUID]bool{},
	}
	_, err := s.client().Apply(ctx, sdk.ApplyRequest{Document: s.config.document(), File: "storm.yaml"})
	require.NoError(t, err)
	return s, store
}
