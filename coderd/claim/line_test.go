package claim_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// A line is served once for all who stand in it, not once for each: a long one must not keep the database from making what it
// waits for. Who has just joined is always served after that.
func TestLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := claim.New(claim.Options{Clock: quartz.NewReal(), Registerer: prometheus.NewRegistry()})
		var served atomic.Int64
		var failure error
		begin := make(chan struct{})
		s.OnBind(func(context.Context, uuid.UUID) ([]workspaces.Bound, error) {
			<-begin
			served.Add(1)
			return nil, failure
		})
		const n = 10
		preset, other := uuid.New(), uuid.New()
		ask := func(preset uuid.UUID, first bool) (answers chan error, leave func()) {
			serve, leave := s.Join(preset)
			answers = make(chan error, 1)
			go func() { answers <- serve(t.Context(), first) }()
			synctest.Wait()
			return answers, leave
		}
		all := func(first bool) (failed int) {
			var answers []chan error
			for range n {
				a, leave := ask(preset, first)
				defer leave()
				answers = append(answers, a)
			}
			for range n { // as often as anybody could serve it
				select {
				case begin <- struct{}{}:
				default:
				}
				synctest.Wait()
			}
			for _, a := range answers {
				if <-a != nil {
					failed++
				}
			}
			return failed
		}
		_, leaveLast := s.Join(preset) // so that it stays the same line
		require.Zero(t, all(true))
		require.EqualValues(t, 2, served.Swap(0), "once for the first, and once for all who came meanwhile")

		require.Zero(t, all(false))
		require.Zero(t, served.Swap(0), "it was served a moment ago")
		time.Sleep(time.Second)
		require.Zero(t, all(false))
		require.EqualValues(t, 1, served.Swap(0), "once in a while")
		require.Zero(t, all(true))
		require.EqualValues(t, 2, served.Swap(0), "who joins does not rely on a moment ago")

		// Another line is not held up.
		one, leave := ask(preset, true)
		two, leaveToo := ask(other, true)
		require.Equal(t, 2, s.Lines())
		begin <- struct{}{}
		begin <- struct{}{}
		require.NoError(t, errors.Join(<-one, <-two))
		leave()
		leaveToo()
		leaveLast()
		require.Zero(t, s.Lines(), "nobody stands in them")
		served.Store(0)

		// Who was not served because of an error tries again, and nobody relies on it.
		failure = errors.New("no database")
		require.Equal(t, n, all(true))
		require.EqualValues(t, n, served.Swap(0))

		// Nobody waits for a turn longer than for the rest.
		one, leave = ask(preset, true)
		serve, leaveToo := s.Join(preset)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		require.ErrorIs(t, serve(ctx, true), context.DeadlineExceeded)
		cancel()
		begin <- struct{}{}
		require.ErrorIs(t, <-one, failure)
		leave()
		leaveToo()
	})
}

// Where nothing is ready, no row of the line is locked: who looks in vain neither waits for others nor writes.
func TestWait_nothingReady(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 0, 1)
	r := w.Start(t, coderdtest.Config{})
	pauseAll(t, w)
	gone, leave := context.WithCancel(context.Background())
	defer leave()
	preset := w.Preset(t, "a")
	go func() {
		_, _ = r.Claims.Claim(gone, claim.Request{UserID: w.Owner, PresetID: preset, Mode: database.ClaimModePrefer, Wait: 5 * time.Minute})
	}()
	coderdtest.Eventually(t, "in line", func() bool { return count(t, w, "claims WHERE state = 'waiting'") == 1 })
	tx, err := w.Store.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM claims WHERE state = 'waiting' FOR UPDATE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bound, err := r.Writer.BindOldest(ctx, preset)
	require.NoError(t, err, "it waited for a lock")
	require.Empty(t, bound)
}
