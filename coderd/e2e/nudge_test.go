package e2e_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const poolOf3 = `
providers: [{name: cloud, kind: sim, config: {root: %q}}]
templates:
  - name: a
    provider: cloud
    spec: {}
    presets: [{name: default, prebuilds: {instances: 3}}]
`

// A claim refills its pool through its nudge, long before a tick: here the tick is hours away, so that a refill at all
// is the nudge's. The log says how long it took from the claim to the resource that replaces what was claimed, which
// is made after the create job was leased: an upper bound of the time to the start of the refill.
func TestNudge_refillsWithoutATick(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url, root := dbtest.URL(t), t.TempDir()
	store := dbtest.OpenURL(t, url, database.Options{})
	servers := e2etest.StartAll(t, 3, e2etest.Options{PostgresURL: url, Tick: 3 * time.Hour})
	apply(ctx, t, servers[0].Client, poolOf3, root)
	full := func() bool { return preset(ctx, t, servers[0].Client, "a").Eligible == 3 }
	eventually(t, "pool of 3", full)
	for i := range rounds(20) {
		claim, err := servers[i%3].Client.Claim(ctx, sdk.ClaimRequest{Template: "a", Preset: "default", Mode: "require"})
		require.NoError(t, err)
		require.Equal(t, "hit", claim.Outcome)
		eventually(t, "refilled by a nudge", full)
	}
	planned, made := refillTimes(ctx, t, store, root)
	require.Len(t, planned, rounds(20))
	t.Logf("from claim to planned: median %s, 95th %s; to the resource at the provider: median %s, 95th %s, most %s",
		quantile(planned, 0.5), quantile(planned, 0.95), quantile(made, 0.5), quantile(made, 0.95), quantile(made, 1))
}

// refillTimes are, for each claim, the times from it to the row of the workspace that replaced it, and to its resource.
func refillTimes(ctx context.Context, t *testing.T, store *database.Store, root string) (planned, made []time.Duration) {
	t.Helper()
	cloud, err := sim.New(sim.Options{Root: root})
	require.NoError(t, err)
	resources, err := cloud.All()
	require.NoError(t, err)
	madeAt := map[uuid.UUID]time.Time{}
	for _, r := range resources {
		madeAt[r.Tags.WorkspaceID] = r.CreatedAt
	}
	rows, err := store.Pool.Query(ctx, `SELECT c.bound_at, w.id, w.created_at FROM claims c, LATERAL (
		SELECT id, created_at FROM workspaces w WHERE w.created_at > c.bound_at ORDER BY w.created_at LIMIT 1) w`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var bound, created time.Time
		var id uuid.UUID
		require.NoError(t, rows.Scan(&bound, &id, &created))
		planned, made = append(planned, created.Sub(bound)), append(made, madeAt[id].Sub(bound))
	}
	require.NoError(t, rows.Err())
	return planned, made
}

func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))].Round(100 * time.Microsecond)
}

// I9: with every notification lost, and a claimer that is gone before it could nudge anybody, the next tick is enough:
// as soon as a full pass that began after the claim is committed, so is the refill.
func TestNudge_lost_oneTickIsEnough(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := dbtest.URL(t)
	store := dbtest.OpenURL(t, url, database.Options{})
	muteNotifications(ctx, t, store)
	server := e2etest.Start(t, e2etest.Options{PostgresURL: url, Tick: time.Second})
	apply(ctx, t, server.Client, poolOf3, t.TempDir())
	eventually(t, "pool of 3", func() bool { return preset(ctx, t, server.Client, "a").Eligible == 3 })

	who, err := server.Client.Whoami(ctx)
	require.NoError(t, err)
	gone := workspaces.New(store, uuid.New, "gone") // what a replica does up to the commit of a claim, and no more
	for range min(rounds(3), 20) {
		quiet(ctx, t, store)
		got, err := gone.ClaimBatch(ctx, []workspaces.ClaimFor{{
			ClaimID: uuid.New(), PresetID: preset(ctx, t, server.Client, "a").ID, UserID: who.UserID,
			Mode: database.ClaimModeRequire,
		}}, nil)
		require.NoError(t, err)
		require.Len(t, got, 1)
		w := got[0]
		var committed time.Time // no later than: a pass that began while the claim was under way may have seen it, or not
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT prewarm_now()::timestamptz").Scan(&committed))
		eventually(t, "next tick", func() bool {
			var during, passed bool
			var unclaimed int
			require.NoError(t, store.Pool.QueryRow(ctx, `SELECT f.full_began_at > $1, f.full_began_at > $2,
				(SELECT count(*) FROM workspaces WHERE state IN ('provisioning', 'starting', 'ready')) FROM reconcile_fence f`,
				w.ClaimedAt, committed).Scan(&during, &passed, &unclaimed))
			switch {
			case passed:
				require.Equal(t, 3, unclaimed, "refilled by the first full pass after the claim")
			case !during:
				require.Equal(t, 2, unclaimed, "nothing but the tick was to refill")
			}
			return passed
		})
		eventually(t, "ready again", func() bool { return preset(ctx, t, server.Client, "a").Eligible == 3 })
	}
}

// quiet waits for a tick well after the last transition, so that no nudge of a server to itself is still under way.
func quiet(ctx context.Context, t *testing.T, store *database.Store) {
	t.Helper()
	eventually(t, "a quiet moment", func() bool {
		var is bool
		require.NoError(t, store.Pool.QueryRow(ctx, `SELECT f.full_began_at > max(w.state_at) + interval '2 s'
			FROM reconcile_fence f, workspaces w GROUP BY f.full_began_at`).Scan(&is))
		return is
	})
}

// muteNotifications makes the database swallow every NOTIFY, while listeners stay connected and suspect nothing.
func muteNotifications(ctx context.Context, t *testing.T, store *database.Store) {
	t.Helper()
	_, err := store.Pool.Exec(ctx, `CREATE SCHEMA mute;
		CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE sql AS '';
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = mute, pg_catalog, public', current_database()); END $$`)
	require.NoError(t, err)
	store.Reset()
	var muted bool
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT 'pg_notify(text, text)'::regprocedure = 'mute.pg_notify(text, text)'::regprocedure").Scan(&muted))
	require.True(t, muted)
}
