package claim_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// gate holds the batches of a replica back, so that a test decides what comes into one.
type gate struct {
	open chan struct{}

	mu      sync.Mutex
	batches [][]workspaces.ClaimFor
}

func hold(r *coderdtest.Replica) *gate {
	g := &gate{open: make(chan struct{})}
	r.Claims.OnBatch(func(batch []workspaces.ClaimFor) {
		g.mu.Lock()
		g.batches = append(g.batches, batch)
		g.mu.Unlock()
		<-g.open
	})
	return g
}

// sizes of the batches so far.
func (g *gate) sizes() (sizes []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.batches {
		sizes = append(sizes, len(b))
	}
	return sizes
}

// still is a world whose pools a and b are full and stay as they are.
func still(t *testing.T, n int) (*coderdtest.World, *coderdtest.Replica) {
	t.Helper()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	for _, pool := range []string{"a", "b"} {
		r.Reconciler.Nudge(w.Pool(t, pool, n, 1)...)
		coderdtest.Eventually(t, "pool "+pool, func() bool { return w.Warm(t, pool) == n })
	}
	pauseAll(t, w)
	return w, r
}

type answer struct {
	res claim.Result
	err error
}

// send claims in the background; the answer comes on the channel.
func send(ctx context.Context, t *testing.T, w *coderdtest.World, r *coderdtest.Replica, pool string, req claim.Request) <-chan answer {
	t.Helper()
	req.UserID, req.OrganizationID, req.PresetID = w.Owner, auth.DefaultOrganizationID, w.Preset(t, pool)
	if req.Source == "" {
		req.Source = "test"
	}
	req.Mode = cmp.Or(req.Mode, database.ClaimModeRequire)
	answered := make(chan answer, 1)
	go func() {
		res, err := r.Claims.Claim(ctx, req)
		answered <- answer{res, err}
	}()
	return answered
}

// fill occupies both batches in flight, so that whoever comes next shares one.
func fill(ctx context.Context, t *testing.T, w *coderdtest.World, r *coderdtest.Replica, g *gate) (answers []<-chan answer) {
	t.Helper()
	for n := range 2 {
		answers = append(answers, send(ctx, t, w, r, "a", claim.Request{}))
		coderdtest.Eventually(t, "in flight", func() bool { return len(g.sizes()) == n+1 })
	}
	return answers
}

func pending(t *testing.T, r *coderdtest.Replica, n int) {
	t.Helper()
	coderdtest.Eventually(t, fmt.Sprintf("%d wait for a batch", n), func() bool { return r.Claims.Pending() == n })
}

// Those who come while two batches are in flight share the next one, whatever pools they want.
func TestBatch_isSharedByWhoeverComesMeanwhile(t *testing.T) {
	t.Parallel()
	w, r := still(t, 10)
	g := hold(r)
	answers := fill(t.Context(), t, w, r, g)
	for i := range 10 {
		pool := []string{"a", "b"}[i%2]
		answers = append(answers, send(t.Context(), t, w, r, pool, claim.Request{}))
	}
	pending(t, r, 10)
	require.Equal(t, []int{1, 1}, g.sizes(), "no more than two are in flight")
	close(g.open)
	seen := map[uuid.UUID]bool{}
	for i, a := range answers {
		got := <-a
		require.NoError(t, got.err)
		require.NotNil(t, got.res.Workspace, got.res.Reason)
		seen[got.res.Workspace.ID] = true
		if i >= 2 {
			require.Equal(t, w.Preset(t, []string{"a", "b"}[i%2]), got.res.Workspace.PresetID)
		}
	}
	require.Len(t, seen, 12)
	require.Equal(t, []int{1, 1, 10}, g.sizes(), "one statement for ten claims")
	require.Equal(t, 12, count(t, w, `claims c JOIN workspaces w ON w.claim_id = c.id AND w.id = c.workspace_id
		JOIN workspace_history h ON h.workspace_id = w.id AND h.to_state = 'claimed'
		JOIN audit_log a ON a.target_id = w.id::text AND a.action = 'workspace.claim' AND a.after->>'claim_id' = c.id::text`))
}

// A receipt says how long the claim waited for its batch, which is no time where it starts one, and how long the statement took.
func TestBatch_receipt(t *testing.T) {
	t.Parallel()
	w, _ := still(t, 3)
	clock := quartz.NewMock(t)
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true, Parts: func(p *replica.Parts) { p.Clock = clock }})
	g := hold(r)
	first := fill(t.Context(), t, w, r, g)
	late := send(t.Context(), t, w, r, "a", claim.Request{})
	pending(t, r, 1)
	clock.Advance(3 * time.Second).MustWait(t.Context())
	close(g.open)
	for _, a := range first {
		got := <-a
		require.NoError(t, got.err)
		require.Equal(t, claim.Receipt{Statement: 3 * time.Second, Batched: true}, got.res.Receipt)
	}
	got := <-late
	require.NoError(t, got.err)
	require.Equal(t, claim.Receipt{Queue: 3 * time.Second, Batched: true}, got.res.Receipt)
}

// Where a pool has too few, those who came first are served, and the others are told that they were not.
func TestBatch_shortPool(t *testing.T) {
	t.Parallel()
	w, r := still(t, 5)
	g := hold(r)
	first := fill(t.Context(), t, w, r, g)
	var rest []<-chan answer
	for i := range 8 {
		rest = append(rest, send(t.Context(), t, w, r, "a", claim.Request{}))
		pending(t, r, i+1)
	}
	close(g.open)
	hits := 0
	for _, a := range first { // which of the three batches comes first is open
		if (<-a).res.Workspace != nil {
			hits++
		}
	}
	missed := false
	for i, a := range rest {
		got := <-a
		require.NoError(t, got.err)
		if got.res.Workspace != nil {
			hits++
			require.False(t, missed, "claim %d of the batch was served, and one before it was not", i+1)
		}
		missed = missed || got.res.Workspace == nil
	}
	require.Equal(t, 5, hits)
}

// What PostgreSQL refuses of one claim must not fail the others.
func TestBatch_badOneFailsAlone(t *testing.T) {
	t.Parallel()
	w, r := still(t, 8)
	g := hold(r)
	answers := fill(t.Context(), t, w, r, g)
	for range 3 {
		answers = append(answers, send(t.Context(), t, w, r, "a", claim.Request{}))
	}
	bad := send(t.Context(), t, w, r, "a", claim.Request{Source: "a\x00b"}) // no text in PostgreSQL
	for range 3 {
		answers = append(answers, send(t.Context(), t, w, r, "b", claim.Request{}))
	}
	pending(t, r, 7)
	close(g.open)
	for _, a := range answers {
		got := <-a
		require.NoError(t, got.err)
		require.NotNil(t, got.res.Workspace, got.res.Reason)
	}
	require.Error(t, (<-bad).err)
	require.Equal(t, 8, count(t, w, "workspaces WHERE state = 'claimed'"))
	require.Equal(t, 8, count(t, w, "claims WHERE state = 'bound'"))
}

// A key that comes several times at once is given one workspace, and its batch-mates theirs.
func TestBatch_sameKeyTwice(t *testing.T) {
	t.Parallel()
	w, r := still(t, 8)
	g := hold(r)
	fill(t.Context(), t, w, r, g)
	var keyed, mates []<-chan answer
	for range 4 {
		keyed = append(keyed, send(t.Context(), t, w, r, "a", claim.Request{Key: "k"}))
		mates = append(mates, send(t.Context(), t, w, r, "b", claim.Request{}))
	}
	pending(t, r, 8)
	close(g.open)
	seen := map[uuid.UUID]bool{}
	for _, a := range keyed {
		got := <-a
		require.NoError(t, got.err)
		require.NotNil(t, got.res.Workspace, got.res.Reason)
		require.Equal(t, database.ClaimOutcomeHit, got.res.Outcome)
		seen[got.res.Workspace.ID] = true
	}
	require.Len(t, seen, 1)
	for _, a := range mates {
		require.NotNil(t, (<-a).res.Workspace)
	}
	require.Equal(t, 5, g.sizes()[2], "one statement for those that can share it: the first with the key, and the mates")
	coderdtest.Eventually(t, "nothing else is claimed", func() bool { return w.Count(t, "a", "claimed") == 3 })
	require.Equal(t, 1, count(t, w, "claims WHERE idempotency_key = 'k'"))
}

// Two replicas whose batches bring the same keys, each in the other's opposite order, give each key one workspace, and
// neither ever waits for the other for good.
func TestBatch_sameKeysOnTwoReplicas(t *testing.T) {
	t.Parallel()
	const keys = 12
	w := coderdtest.NewWorld(t, sim.Behavior{})
	replicas := []*coderdtest.Replica{w.Start(t, coderdtest.Config{Tick: time.Hour}), w.Start(t, coderdtest.Config{Tick: time.Hour})}
	replicas[0].Reconciler.Nudge(w.Pool(t, "a", 4*keys, 1)...)
	coderdtest.Eventually(t, "pool", func() bool { return w.Warm(t, "a") == 4*keys })
	pauseAll(t, w)
	answers := [keys][]<-chan answer{}
	var gates []*gate
	var others []<-chan answer
	for i, r := range replicas {
		g := hold(r)
		gates = append(gates, g)
		others = append(others, fill(t.Context(), t, w, r, g)...)
		for n := range keys {
			k := n
			if i == 1 {
				k = keys - 1 - n
			}
			answers[k] = append(answers[k], send(t.Context(), t, w, r, "a", claim.Request{Key: fmt.Sprintf("k%02d", k)}))
			pending(t, r, n+1)
		}
	}
	for _, g := range gates {
		close(g.open)
	}
	for k, same := range answers {
		one, two := <-same[0], <-same[1]
		require.NoError(t, one.err)
		require.NoError(t, two.err)
		require.NotNil(t, one.res.Workspace, one.res.Reason)
		require.Equal(t, one.res.Workspace.ID, two.res.Workspace.ID, "key %d", k)
	}
	for _, other := range others {
		require.NoError(t, (<-other).err)
	}
	require.Equal(t, keys+len(others), w.Count(t, "a", "claimed"))
}

// A client that goes away before its batch is formed takes nothing; one that goes away while it is in flight gives back
// what nobody was told of. Batch-mates notice neither.
func TestBatch_clientGoesAway(t *testing.T) {
	t.Parallel()
	w, r := still(t, 8)
	g := hold(r)
	gone, leave := context.WithCancel(t.Context())
	inFlight := send(gone, t, w, r, "a", claim.Request{})
	coderdtest.Eventually(t, "in flight", func() bool { return len(g.sizes()) == 1 })
	mate := send(t.Context(), t, w, r, "a", claim.Request{})
	coderdtest.Eventually(t, "in flight", func() bool { return len(g.sizes()) == 2 })
	waiting := send(gone, t, w, r, "a", claim.Request{})
	pending(t, r, 1)
	leave()
	require.ErrorIs(t, (<-waiting).err, context.Canceled)
	require.Zero(t, r.Claims.Pending())
	close(g.open)
	require.ErrorIs(t, (<-inFlight).err, context.Canceled)
	got := <-mate
	require.NoError(t, got.err)
	require.NotNil(t, got.res.Workspace)
	require.Equal(t, 1, w.Count(t, "a", "claimed"), "the mate's; the other one was released before its answer")
	require.Equal(t, 2, count(t, w, "claims WHERE state IN ('bound', 'released')"), "who only waited left nothing")
}

// A floor may hide a workspace that turned up below it, but no miss is answered by it.
func TestFloor_hidesNothingFromAMiss(t *testing.T) {
	t.Parallel()
	w, r := still(t, 6)
	for range 4 {
		res, err := w.Claim(t, r, "a", claim.Request{})
		require.NoError(t, err)
		require.NotNil(t, res.Workspace)
	}
	_, err := w.Store.Pool.Exec(context.Background(), "UPDATE workspaces SET ready_at = ready_at - interval '1 hour' WHERE state = 'ready'")
	require.NoError(t, err)
	for range 2 {
		res, err := w.Claim(t, r, "a", claim.Request{})
		require.NoError(t, err)
		if assert.NotNil(t, res.Workspace, res.Reason) {
			require.Equal(t, database.ClaimOutcomeHit, res.Outcome)
		}
	}
}

// A batch leaves out a claim whose key its user has used before. It serves the others, and the same key of another user.
func TestBatch_usedKey(t *testing.T) {
	t.Parallel()
	w, _ := still(t, 4)
	bob := uuid.New()
	exec(t, w, "INSERT INTO users (id, name, created_at) VALUES ($1, 'bob', now())", bob)
	writer := workspaces.New(w.Store, workspaces.NewID, "test")
	of := func(user uuid.UUID, key string) workspaces.ClaimFor {
		return workspaces.ClaimFor{
			ClaimID: uuid.New(), PresetID: w.Preset(t, "a"), UserID: user, Key: key, Mode: database.ClaimModeRequire, Source: "test",
		}
	}
	served := func(batch ...workspaces.ClaimFor) (claims []uuid.UUID) {
		t.Helper()
		got, err := writer.ClaimBatch(t.Context(), batch, nil)
		require.NoError(t, err)
		for _, workspace := range got {
			claims = append(claims, workspace.ClaimID.UUID)
		}
		return claims
	}
	first, fresh, others := of(w.Owner, "k"), of(w.Owner, "fresh"), of(bob, "k")
	require.Equal(t, []uuid.UUID{first.ClaimID}, served(first))
	require.Equal(t, []uuid.UUID{fresh.ClaimID}, served(of(w.Owner, "k"), fresh))
	require.Equal(t, []uuid.UUID{others.ClaimID}, served(others))
	require.Equal(t, 3, w.Count(t, "a", "claimed"))
}

// beaten is a database in which batches of claims lose against other transactions, for so many times.
type beaten struct {
	*pgxpool.Pool
	code  string
	times atomic.Int64
}

func (b *beaten) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if strings.Contains(sql, "name: ClaimBatch ") && b.times.Add(-1) >= 0 {
		return nil, &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: b.code}
	}
	return b.Pool.Query(ctx, sql, args...)
}

// A batch that has lost against another transaction runs again, four times in all: who is in it does not hear of that.
func TestBatch_lostToAnother(t *testing.T) {
	t.Parallel()
	w, r := still(t, 2)
	db := &beaten{Pool: w.Store.Pool}
	over := over(db)
	o := r.Claims.Options
	o.Writer, o.Registerer = workspaces.New(over, workspaces.NewID, "test"), prometheus.NewRegistry()
	s := claim.New(o)
	t.Cleanup(s.Close)
	req := claim.Request{
		UserID: w.Owner, OrganizationID: auth.DefaultOrganizationID, PresetID: w.Preset(t, "a"), Source: "test", Mode: database.ClaimModeRequire,
	}
	for _, db.code = range []string{"40001", "40P01"} {
		db.times.Store(3)
		res, err := s.Claim(t.Context(), req)
		require.NoError(t, err, db.code)
		require.NotNil(t, res.Workspace, res.Reason)
	}
	db.times.Store(1000)
	_, err := s.Claim(t.Context(), req)
	require.True(t, database.IsDeadlock(err), "%v", err)
}
