package events_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/events"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const patience = 2 * time.Minute

func newHub(t *testing.T, store *database.Store) *events.Hub {
	t.Helper()
	hub := events.New(events.Options{
		Store: store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); hub.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return hub
}

// owner is a user owner with a valid token.
func owner(t *testing.T, store *database.Store) auth.Identity {
	t.Helper()
	ctx := context.Background()
	_, _, err := auth.EnsureOwner(ctx, store, t.TempDir())
	require.NoError(t, err)
	who := auth.Identity{Membership: auth.Membership{
		OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner,
	}}
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT id, user_id FROM tokens").Scan(&who.TokenID, &who.UserID))
	return who
}

// subscribe returns a stream that was told everything.
func subscribe(t *testing.T, hub *events.Hub, who auth.Identity) *events.Stream {
	t.Helper()
	s, err := hub.Subscribe(who)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.Equal(t, sdk.Events{Everything: true}, next(t, s))
	return s
}

func next(t *testing.T, s *events.Stream) sdk.Events {
	t.Helper()
	for {
		select {
		case <-s.Ready():
			if m := s.Take(); m != nil {
				return m.Events
			}
		case <-s.Ended():
			require.FailNow(t, "stream ended", "%v", events.ErrStopping)
		case <-time.After(patience):
			require.FailNow(t, "nothing was told")
		}
	}
}

// audit writes an entry about a preset of that id, in the transaction or by itself.
func audit(t *testing.T, q database.DBTX, id string) {
	t.Helper()
	_, err := q.Exec(context.Background(), `INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id)
		VALUES (now(), $1, $2, 'preset.test', 'preset', $3)`, uuid.Nil, auth.DefaultOrganizationID, id)
	require.NoError(t, err)
}

func preset(id string) sdk.Hint { return sdk.Hint{Topic: sdk.TopicPreset, ID: id} }

// until takes until the hint was told.
func until(t *testing.T, s *events.Stream, hint sdk.Hint) {
	t.Helper()
	for {
		for _, h := range next(t, s).Hints {
			if h == hint {
				return
			}
		}
	}
}

// A row that is committed after one with a greater id is heard of, also if its transaction began before the stream.
func TestHub_lateCommits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	hub, who := newHub(t, store), owner(t, store)
	begin := func() pgx.Tx {
		tx, err := store.Pool.Begin(ctx)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	earliest := begin()
	audit(t, earliest, "earliest")
	audit(t, store.Pool, "before") // so that the earliest is behind the end of the log

	s := subscribe(t, hub, who)
	late := begin()
	audit(t, late, "late")
	audit(t, store.Pool, "early")
	until(t, s, preset("early"))
	require.NoError(t, late.Commit(ctx))
	until(t, s, preset("late"))
	require.NoError(t, earliest.Commit(ctx))
	until(t, s, preset("earliest"))
}

// What a slow stream did not take is merged, and past the bound it is everything; nobody else is told less.
func TestHub_slowStream(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	hub, who := newHub(t, store), owner(t, store)
	quick, slow := subscribe(t, hub, who), subscribe(t, hub, who)

	for range 3 { // the same again
		audit(t, store.Pool, "one")
		until(t, quick, preset("one"))
	}
	waiting := map[sdk.Hint]int{} // the quick one may have been told of the third before the slow one was
	for len(waiting) < 4 {
		merged := next(t, slow)
		require.False(t, merged.Everything)
		for _, hint := range merged.Hints {
			waiting[hint]++
		}
	}
	require.LessOrEqual(t, waiting[preset("one")], 2, "a preset and three entries: %v", waiting)

	for i := range 120 { // two hints each
		audit(t, store.Pool, fmt.Sprint(i))
		if i%40 == 39 {
			audit(t, store.Pool, "mark")
			until(t, quick, preset("mark"))
		}
	}
	audit(t, store.Pool, "last") // by another look: the one before has told the slow one too, whichever was told first
	until(t, quick, preset("last"))
	require.Equal(t, sdk.Events{Everything: true}, next(t, slow))
	audit(t, store.Pool, "after")
	until(t, slow, preset("after"))
}

// A database that is away for a while costs time, and no change.
func TestHub_nothingIsLostWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	hub, who := newHub(t, store), owner(t, store)
	s := subscribe(t, hub, who)
	for i := range 3 {
		// Without its table no look succeeds.
		_, err := store.Pool.Exec(ctx, "ALTER TABLE audit_log RENAME TO hidden")
		require.NoError(t, err)
		_, err = store.Pool.Exec(ctx, `INSERT INTO hidden (at, actor_id, organization_id, action, target_type, target_id)
			VALUES (now(), $1, $2, 'preset.test', 'preset', $3)`, uuid.Nil, auth.DefaultOrganizationID, fmt.Sprint(i))
		require.NoError(t, err)
		_, err = store.Pool.Exec(ctx, "ALTER TABLE hidden RENAME TO audit_log")
		require.NoError(t, err)
		until(t, s, preset(fmt.Sprint(i)))
	}
}

// TestStreamsOfOneUser: nobody can take all streams; who closes one may open another, and others may all the while.
func TestStreamsOfOneUser(t *testing.T) {
	t.Parallel()
	hub := events.New(events.Options{
		Store: dbtest.Open(t), Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(),
	})
	greedy := auth.Identity{Principal: auth.Principal{UserID: uuid.New()}}
	other := auth.Identity{Principal: auth.Principal{UserID: uuid.New()}}
	var streams []*events.Stream
	for range 500 {
		s, err := hub.Subscribe(greedy)
		require.NoError(t, err)
		streams = append(streams, s)
	}
	_, err := hub.Subscribe(greedy)
	require.ErrorIs(t, err, events.ErrTooMany)
	s, err := hub.Subscribe(other)
	require.NoError(t, err)
	s.Close()
	streams[0].Close()
	streams[0].Close() // once more is no other one
	_, err = hub.Subscribe(greedy)
	require.NoError(t, err)
	_, err = hub.Subscribe(greedy)
	require.ErrorIs(t, err, events.ErrTooMany)
}
