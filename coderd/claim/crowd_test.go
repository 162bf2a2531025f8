package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
)

// One user has no more claims that wait, nor that have workspaces built for them, than may be, alone or together; others wait
// all the while, and who has as many as may be still takes what is warm.
func TestWaitingOfOneUser(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	r.Claims.MaxWaiting, r.Claims.MaxCold = 5, 2
	r.Reconciler.Nudge(w.Pool(t, "go", 1, 1)...)
	coderdtest.Eventually(t, "pool of 1", func() bool { return w.Warm(t, "go") == 1 })
	pauseAll(t, w)
	other := uuid.New()
	_, err := w.Store.Pool.Exec(t.Context(), "INSERT INTO users (id, name, created_at) VALUES ($1, 'other', now())", other)
	require.NoError(t, err)
	preset := w.Preset(t, "go")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 20)
	ask := func(user uuid.UUID, count int, mode database.ClaimMode) error {
		_, err := r.Claims.Claim(ctx, claim.Request{
			UserID: user, OrganizationID: auth.DefaultOrganizationID, PresetID: preset, Source: "test", Mode: mode,
			Wait: time.Hour, Count: count,
		})
		return err
	}
	begun := 0
	wait := func(user uuid.UUID, count int, mode database.ClaimMode) {
		t.Helper()
		of := func() int {
			n, err := claimdb.New(w.Store).WaitingOf(t.Context(), user)
			require.NoError(t, err)
			return int(n.Waiting)
		}
		want := of() + count
		begun++
		go func() { ended <- ask(user, count, mode) }()
		coderdtest.Eventually(t, "it waits", func() bool { return of() == want })
	}
	refused := func(user uuid.UUID, count int, mode database.ClaimMode, text string) {
		t.Helper()
		var quota *claim.QuotaExceeded
		err := ask(user, count, mode)
		require.ErrorAs(t, err, &quota)
		require.ErrorContains(t, err, text)
	}

	wait(w.Owner, 1, database.ClaimModeBypass)
	wait(w.Owner, 1, database.ClaimModeBypass)
	refused(w.Owner, 1, database.ClaimModeBypass, "each user may have 2 claims that wait for a workspace built for them, 2 are claimed")
	require.NoError(t, ask(w.Owner, 1, database.ClaimModePrefer), "it is warm")
	wait(w.Owner, 2, database.ClaimModePrefer)
	refused(w.Owner, 2, database.ClaimModePrefer, "each user may have 5 claims that wait, 4 are claimed or waited for and 2 asked for")
	wait(w.Owner, 1, database.ClaimModePrefer)
	refused(w.Owner, 1, database.ClaimModePrefer, "each user may have 5 claims that wait, 5 are")
	wait(other, 1, database.ClaimModePrefer)
	wait(other, 1, database.ClaimModeBypass)

	var rows int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM claims").Scan(&rows))
	require.Equal(t, 8, rows, "what is refused leaves nothing")
	cancel()
	for range begun {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// A refusal names the limit that it is for, also where the other one is not set, or is just reached.
func TestWaitingOfOneUser_whichLimit(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	w.Pool(t, "go", 0, 1)
	pauseAll(t, w)
	for _, c := range []struct {
		waiting, cold int32
		limit         string
	}{
		{0, 1, "each user may have 1 claims that wait for a workspace built for them, 0 are"},
		{2, 1, "each user may have 1 claims that wait for a workspace built for them, 0 are"},
		{1, 0, "each user may have 1 claims that wait, 0 are"},
		{1, 1, "each user may have 1 claims that wait, 0 are"},
	} {
		r.Claims.MaxWaiting, r.Claims.MaxCold = c.waiting, c.cold
		_, err := w.Claim(t, r, "go", claim.Request{Mode: database.ClaimModeBypass, Wait: time.Hour, Count: 2})
		var quota *claim.QuotaExceeded
		require.ErrorAs(t, err, &quota, "%+v", c)
		require.ErrorContains(t, err, c.limit, "%+v", c)
	}
	require.Zero(t, count(t, w, "claims"), "what is refused leaves nothing")
}
