package claim_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// A replica that is late, as after it was frozen, makes a claim whose client has asked another one meanwhile, by the same key, and
// has a miss for an answer. Nobody would ever ask for that claim: it ends, and its key is free.
func TestLate(t *testing.T) {
	t.Parallel()
	w, r := still(t, 1)
	other := w.Start(t, coderdtest.Config{Tick: time.Hour})
	g := hold(r)
	release := sync.OnceFunc(func() { close(g.open) })
	defer release()
	gone, leave := context.WithCancel(t.Context())
	late := send(gone, t, w, r, "a", claim.Request{Key: "k"})
	coderdtest.Eventually(t, "in flight", func() bool { return len(g.sizes()) == 1 })

	_, err := w.Claim(t, other, "a", claim.Request{})
	require.NoError(t, err)
	leave()
	res, err := w.Claim(t, other, "a", claim.Request{Key: "k"})
	require.NoError(t, err)
	require.Nil(t, res.Workspace)
	resumeAll(t, w)
	other.Reconciler.Missed()
	coderdtest.Eventually(t, "the pool is full again", func() bool { return w.Warm(t, "a") == 1 })

	release()
	require.ErrorIs(t, (<-late).err, context.Canceled)
	require.Equal(t, 1, w.Count(t, "a", "claimed"), "by who has no key")
	require.Equal(t, 1, count(t, w, "claims WHERE state = 'released'"), "it was made, and has ended")
	require.Zero(t, count(t, w, "claims WHERE idempotency_key IS NOT NULL"))
}

// The connection may be known to be closed before the context is: then nothing is claimed, and what was claimed meanwhile is taken back.
func TestLate_closed(t *testing.T) {
	t.Parallel()
	w, r := still(t, 2)
	for _, key := range []string{"", "k"} {
		asked := 0
		closedAt := func(n int) func() bool { return func() bool { asked++; return asked >= n } }
		_, err := w.Claim(t, r, "a", claim.Request{Key: key, Gone: closedAt(1)})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2, w.Warm(t, "a"))
		asked = 0
		_, err = w.Claim(t, r, "a", claim.Request{Key: key, Gone: closedAt(2)})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, w.Count(t, "a", "claimed"))
		resumeAll(t, w)
		r.Reconciler.Missed()
		coderdtest.Eventually(t, "the pool is full again", func() bool { return w.Warm(t, "a") == 2 })
	}
	require.Equal(t, 2, count(t, w, "claims WHERE state = 'released' AND idempotency_key IS NULL"))
}

// Several claimed at once for a connection that is closed are taken back, or with a key kept for the request that comes again.
func TestLate_closedTogether(t *testing.T) {
	t.Parallel()
	w, r := still(t, 4)
	closed := func(key string) error {
		asked := 0
		_, err := w.Claim(t, r, "a", claim.Request{Count: 2, Key: key, Gone: func() bool { asked++; return asked > 1 }})
		return err
	}
	require.ErrorIs(t, closed(""), context.Canceled)
	require.Zero(t, w.Count(t, "a", "claimed"))
	require.Equal(t, 2, count(t, w, "claims WHERE state = 'released'"), "they were made, and have ended")
	require.ErrorIs(t, closed("k"), context.Canceled)
	require.Equal(t, 2, w.Count(t, "a", "claimed"))
	res, err := w.Claim(t, r, "a", claim.Request{Count: 2, Key: "k"})
	require.NoError(t, err)
	require.Len(t, res.Together, 2, res.Reason)
	require.Equal(t, 2, w.Count(t, "a", "claimed"))
}

// over is a store on a database that a test makes.
func over(conn database.Conn) *database.Store {
	return database.Over(conn, quartz.NewReal(), func(most time.Duration) time.Duration { return most })
}

// givenBack waits until no workspace of the pool is claimed, as time goes on for the claims that are settled.
func givenBack(t *testing.T, w *coderdtest.World, clock *quartz.Mock) {
	t.Helper()
	coderdtest.Eventually(t, "it is given back", func() bool {
		clock.Advance(2 * time.Second).MustWait(t.Context())
		return w.Count(t, "a", "claimed") == 0
	})
}

// deaf commits, and does not hear of it while answers are lost.
type deaf struct {
	*pgxpool.Pool
	lost *atomic.Bool
}

func (d deaf) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := d.Pool.BeginTx(ctx, opts)
	return deafTx{tx, d.lost}, err
}

type deafTx struct {
	pgx.Tx
	lost *atomic.Bool
}

func (d deafTx) Commit(ctx context.Context) error {
	if err := d.Tx.Commit(ctx); err != nil || !d.lost.Load() {
		return err
	}
	return io.ErrUnexpectedEOF
}

// cut has no answer to what is not in a transaction, while it is cut.
type cut struct {
	*pgxpool.Pool
	off *atomic.Bool
}

func (c cut) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if c.off.Load() {
		return pgconn.CommandTag{}, io.ErrUnexpectedEOF
	}
	return c.Pool.Exec(ctx, sql, args...)
}

func (c cut) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if c.off.Load() {
		return noRow{}
	}
	return c.Pool.QueryRow(ctx, sql, args...)
}

type noRow struct{}

func (noRow) Scan(...any) error { return io.ErrUnexpectedEOF }

// What cannot be taken back at once, as the database is away, is taken back later: its client is not there to do it.
func TestLate_closedWithoutDatabase(t *testing.T) {
	t.Parallel()
	w, r := still(t, 2)
	clock, off := quartz.NewMock(t), new(atomic.Bool)
	r.Claims.Clock = clock
	r.Claims.Store = over(cut{r.Store.Pool, off})
	for _, key := range []string{"", "k"} {
		asked := 0
		closed := func() bool {
			asked++
			off.Store(asked > 1)
			return asked > 1
		}
		_, err := w.Claim(t, r, "a", claim.Request{Key: key, Gone: closed})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, w.Count(t, "a", "claimed"))
		off.Store(false)
		givenBack(t, w, clock)
	}
	require.Equal(t, 2, count(t, w, "claims WHERE state = 'released' AND idempotency_key IS NULL"))
}

// Where it is unknown whether several were claimed at once, they are given back, unless they have a key: who asks again has them, and
// they stay.
func TestLate_unknownTogether(t *testing.T) {
	t.Parallel()
	w, r := still(t, 4)
	clock, lost := quartz.NewMock(t), new(atomic.Bool)
	r.Claims.Clock = clock
	r.Claims.Store = over(deaf{r.Store.Pool, lost})
	lost.Store(true)
	for _, key := range []string{"k", ""} {
		_, err := w.Claim(t, r, "a", claim.Request{Count: 2, Key: key})
		require.ErrorIs(t, err, database.ErrCommitUnknown)
	}
	require.Equal(t, 4, w.Count(t, "a", "claimed"))
	lost.Store(false)
	kept, err := w.Claim(t, r, "a", claim.Request{Count: 2, Key: "k"})
	require.NoError(t, err)
	require.Len(t, kept.Together, 2, kept.Reason)

	coderdtest.Eventually(t, "those without a key are given back", func() bool {
		clock.Advance(2 * time.Second).MustWait(t.Context())
		return count(t, w, fmt.Sprintf("claims WHERE state = 'released' AND group_id <> '%s'", kept.ClaimID)) == 2
	})
	for _, g := range kept.Together {
		require.Equal(t, 1, count(t, w, fmt.Sprintf("workspaces WHERE state = 'claimed' AND claim_id = '%s'", g.ClaimID)))
	}
}

// What another request was answered with by the same key is not taken back, nor anything while a binary before may be at work, which
// would not say so.
func TestLate_toldOf(t *testing.T) {
	t.Parallel()
	w, r := still(t, 3)
	writer := workspaces.New(w.Store, workspaces.NewID, "test")
	takeBack := func(res claim.Result) error {
		_, err := writer.TakeBack(t.Context(), writer.System("its client is gone"), res.ClaimID, res.Workspace.ID)
		return err
	}
	ask := func(key string) claim.Result {
		t.Helper()
		res, err := w.Claim(t, r, "a", claim.Request{Key: key})
		require.NoError(t, err)
		require.NotNil(t, res.Workspace)
		return res
	}
	alone, twice := ask("alone"), ask("twice")
	require.Equal(t, twice.Workspace.ID, ask("twice").Workspace.ID)
	require.ErrorIs(t, takeBack(twice), workspaces.ErrToldOf)

	_, err := w.Store.Pool.Exec(t.Context(), `INSERT INTO replicas (name, instance_id, version, address, started_at, heartbeat_at)
		VALUES ('one', gen_random_uuid(), 'v1', '', now(), now()), ('other', gen_random_uuid(), 'v2', '', now(), now())`)
	require.NoError(t, err)
	require.ErrorIs(t, takeBack(alone), workspaces.ErrToldOf)
	exec(t, w, "UPDATE replicas SET heartbeat_at = now() - interval '2 minutes' WHERE name = 'one'")
	require.NoError(t, takeBack(alone))
	require.ErrorIs(t, takeBack(alone), workspaces.ErrNotClaimed)
	require.Equal(t, 1, w.Count(t, "a", "claimed"))
	require.NotEqual(t, alone.Workspace.ID, ask("alone").Workspace.ID, "the key is free")
}

func exec(t *testing.T, w *coderdtest.World, sql string, args ...any) {
	t.Helper()
	_, err := w.Store.Pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}
