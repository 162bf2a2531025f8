package failover_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	_ "github.com/prewarm-dev/prewarm/coderd" // so that a change of the server is not answered with a cached result
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/pairtest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

const (
	patience = 2 * time.Minute // which only a hang exceeds
	poll     = 10 * time.Millisecond
	askFor   = 2 * time.Second // before another replica is asked
	pool     = 8
)

// With a synchronous standby the primary is killed under claims, and the standby takes its place: no claim that was answered is
// lost, none is given twice, and the pool fills again without a person (I1, I6). PREWARM_ROUNDS of them, each with what was lost
// as the next standby.
func TestSynchronous(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pair := pairtest.Start(t, true)
	servers := start(t, pair)
	store := dbtest.OpenURL(t, pair.URL(), database.Options{})
	for round := range rounds() {
		claims := newClients(servers, fmt.Sprintf("round-%d", round))
		claims.answered(t, 20)
		pair.Fail()
		lost := time.Now()
		pair.Promote(ctx)
		promoted := time.Now()
		claims.answered(t, 20) // of which most were asked of the new primary
		given := claims.stop()
		checkClaims(t, store, given)
		warm(t, servers)
		t.Logf("%d claims were answered; the standby could write after %.2f s; the longest time without an answer was %.2f s",
			len(given), promoted.Sub(lost).Seconds(), claims.silence().Seconds())
		pair.Rejoin(ctx)
	}
}

// With an asynchronous one, claims that were answered may be lost: what a client was told is somebody's, and looks unclaimed in
// the database that is left. After `prewarm admin after-restore` nothing of it is handed out to anybody else.
func TestAsynchronous(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pair := pairtest.Start(t, false)
	servers := start(t, pair)
	pair.Part(ctx) // the last commits do not reach the standby
	told := map[uuid.UUID]bool{}
	for range pool / 2 {
		claim, err := servers[0].Client.Claim(ctx, sdk.ClaimRequest{Template: "failover", Preset: "default", Mode: "require"})
		require.NoError(t, err)
		require.NotNil(t, claim.WorkspaceID)
		told[*claim.WorkspaceID] = true
	}
	pair.Fail()
	for _, s := range servers { // nobody may be served by what has lost claims
		s.Kill()
	}
	pair.Promote(ctx)
	db, err := pgx.Connect(ctx, pair.URL())
	require.NoError(t, err)
	defer db.Close(context.Background())
	states := func() map[string]int {
		found := map[string]int{}
		for id := range told {
			var state string
			require.NoError(t, db.QueryRow(ctx, "SELECT state FROM workspaces WHERE id = $1", id).Scan(&state))
			found[state]++
		}
		return found
	}
	require.Equal(t, map[string]int{"ready": pool / 2}, states(), "the standby has what it was kept from: nothing is shown")

	out := e2etest.Run(ctx, t, nil, "admin", "after-restore", "--postgres-url", pair.URL())
	t.Logf("%d claims that were answered are lost; after-restore says: %s", len(told), out.Stdout)
	require.Zero(t, out.Status, out.Stderr)
	servers = serve(t, pair)
	warm(t, servers)
	for range pool {
		claim, err := servers[0].Client.Claim(ctx, sdk.ClaimRequest{Template: "failover", Preset: "default", Mode: "require"})
		require.NoError(t, err)
		if claim.WorkspaceID != nil {
			require.NotContains(t, told, *claim.WorkspaceID, "somebody else has it")
		}
	}
	require.Equal(t, map[string]int{"quarantined": pool / 2}, states(), "they are kept as they are, for whoever has them")
}

// start starts the replicas and a warm pool.
func start(t *testing.T, pair *pairtest.Pair) []*e2etest.Server {
	t.Helper()
	servers := serve(t, pair)
	_, err := servers[0].Client.Apply(t.Context(), sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - {name: cloud, kind: sim, config: {root: %q}}
templates:
  - name: failover
    provider: cloud
    spec: {create_latency: 1ms-20ms, ready_latency: 1ms-20ms}
    presets: [{name: default, prebuilds: {instances: %d}}]
`, t.TempDir(), pool)})
	require.NoError(t, err)
	warm(t, servers)
	return servers
}

func serve(t *testing.T, pair *pairtest.Pair) []*e2etest.Server {
	t.Helper()
	return e2etest.StartAll(t, 3, e2etest.Options{PostgresURL: pair.URL(), Tick: 300 * time.Millisecond})
}

// warm waits until the pool is full, by what each replica says.
func warm(t *testing.T, servers []*e2etest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool {
			preset, err := s.Client.Preset(context.Background(), "failover", "default")
			return err == nil && preset.Counts.Eligible == pool && preset.Counts.Deleting+preset.Counts.Stopping == 0
		}, patience, poll, "the pool is full, says %s", s.Replica)
	}
}

// rounds is 1 unless PREWARM_ROUNDS says otherwise.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("PREWARM_ROUNDS")); err == nil {
		return n
	}
	return 1
}

// clients claim through all replicas, each until it has an answer, with the same key, and release what they got after the next.
type clients struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	more    chan struct{}

	mu    sync.Mutex
	given []sdk.Claim // in the order of the answers
	last  time.Time   // answer
	worst time.Duration
}

const crowd = 4

func newClients(servers []*e2etest.Server, name string) *clients {
	c := &clients{last: time.Now(), more: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for i := range crowd {
		c.running.Go(func() {
			for n := 0; c.ctx.Err() == nil; n++ {
				c.claim(servers, i+n, fmt.Sprintf("%s-%d-%d", name, i, n))
			}
		})
	}
	return c
}

// claim asks one replica after the other until one answers, also after the clients are to stop: an answer that was lost is one.
func (c *clients) claim(servers []*e2etest.Server, first int, key string) {
	var claim sdk.Claim
	ask(servers, first, func(ctx context.Context, client *sdk.Client) (err error) {
		claim, err = client.Claim(ctx, sdk.ClaimRequest{Template: "failover", Preset: "default", Mode: "prefer", Wait: "1s", Key: key})
		return err
	})
	c.mu.Lock()
	c.worst = max(c.worst, time.Since(c.last))
	c.last = time.Now()
	if claim.WorkspaceID != nil {
		c.given = append(c.given, claim)
	}
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
	if claim.WorkspaceID == nil {
		return
	}
	again := false
	ask(servers, first+1, func(ctx context.Context, client *sdk.Client) error {
		_, err := client.ReleaseWorkspace(ctx, claim.WorkspaceID.String())
		if again && sdk.StatusOf(err) == 409 {
			return nil // the answer to an earlier request was lost: it is released
		}
		again = true
		return err
	})
}

func ask(servers []*e2etest.Server, first int, call func(context.Context, *sdk.Client) error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); first++ {
		ctx, cancel := context.WithTimeout(context.Background(), askFor)
		err := call(ctx, servers[first%len(servers)].Client)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(poll)
	}
}

// answered waits for so many more claims that were given something.
func (c *clients) answered(t *testing.T, more int) {
	t.Helper()
	c.mu.Lock()
	want := len(c.given) + more
	c.mu.Unlock()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		n := len(c.given)
		c.mu.Unlock()
		if n >= want {
			return
		}
		select {
		case <-c.more:
		case <-deadline:
			t.Fatalf("%d claims were answered, not %d", n, want)
		}
	}
}

// stop waits for all answers and returns the claims that were given something.
func (c *clients) stop() []sdk.Claim {
	c.cancel()
	c.running.Wait()
	return c.given
}

// silence is the longest time without an answer to any claim.
func (c *clients) silence() time.Duration { return c.worst }

// checkClaims: each claim that a client was told of is in the database, of the workspace that the client was told; and no
// workspace was told to two.
func checkClaims(t *testing.T, store *database.Store, given []sdk.Claim) {
	t.Helper()
	holder := map[uuid.UUID]uuid.UUID{}
	for _, claim := range given {
		other, taken := holder[*claim.WorkspaceID]
		require.False(t, taken, "workspace %s was given to claim %s and to claim %s", claim.WorkspaceID, other, claim.ClaimID)
		holder[*claim.WorkspaceID] = claim.ClaimID
		var bound uuid.UUID
		err := store.Pool.QueryRow(context.Background(), "SELECT workspace_id FROM claims WHERE id = $1", claim.ClaimID).Scan(&bound)
		require.NoError(t, err, "claim %s was answered, and is lost", claim.ClaimID)
		require.Equal(t, *claim.WorkspaceID, bound)
	}
}
