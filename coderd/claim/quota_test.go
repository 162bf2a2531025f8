package claim_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
)

// Many claims at once, over two replicas, never exceed a quota, and use all of it: per user, per template and per
// organization, whether they are one or several, warm or waiting. What is over counts no more.
func TestQuota_exactUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	other := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true})
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {}
    claims: {maximum: 20, maximum_per_user: 7}
    presets:
      - name: default
        prebuilds: {instances: 20}
`)...)
	coderdtest.Eventually(t, "pool of 20", func() bool { return w.Warm(t, "a") == 20 })
	pauseAll(t, w)
	users := []uuid.UUID{w.Owner, uuid.New(), uuid.New()}
	for _, u := range users[1:] {
		_, err := w.Store.Pool.Exec(t.Context(), "INSERT INTO users (id, name, created_at) VALUES ($1, $2, now())", u, u.String())
		require.NoError(t, err)
	}
	preset := w.Preset(t, "a")
	round := func(n int, mode database.ClaimMode) (given map[uuid.UUID]int, refused int) {
		given = map[uuid.UUID]int{}
		var mu sync.Mutex
		storm(n, func(i int) {
			on := []*coderdtest.Replica{r, other}[i%2]
			user := users[i%len(users)]
			res, err := on.Claims.Claim(t.Context(), claim.Request{
				UserID: user, OrganizationID: auth.DefaultOrganizationID, PresetID: preset, Source: "test", Mode: mode,
				Wait: 100 * time.Millisecond, Count: 1 + i%2,
			})
			mu.Lock()
			defer mu.Unlock()
			var quota *claim.QuotaExceeded
			switch {
			case err != nil && assert.ErrorAs(t, err, &quota):
				refused++
				assert.Greater(t, quota.Has+quota.Asked, quota.Limit)
			case res.Workspace != nil:
				given[user] += max(1, len(res.Together))
			}
		})
		return given, refused
	}
	given, refused := round(42, database.ClaimModeRequire)
	total := 0
	for user, n := range given {
		require.LessOrEqual(t, n, 7, "user %s", user)
		total += n
	}
	require.Positive(t, refused)
	require.LessOrEqual(t, total, 20)
	require.GreaterOrEqual(t, total, 19, "the quota is used up but for one, where a two did not fit")
	require.Equal(t, total, w.Count(t, "a", "claimed"))

	// A waiting claim counts: nobody is bound beyond the quota later.
	_, err := apidb.New(w.Store).SetQuota(t.Context(), apidb.SetQuotaParams{ID: auth.DefaultOrganizationID, MaxClaimed: ptr(int32(total) + 1)})
	require.NoError(t, err)
	r.Reconciler.Nudge(w.Pool(t, "b", 0, 1)...)
	presetB := w.Preset(t, "b")
	waits := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.Claims.Claim(t.Context(), claim.Request{
				UserID: w.Owner, OrganizationID: auth.DefaultOrganizationID, PresetID: presetB, Source: "test",
				Mode: database.ClaimModePrefer, Wait: time.Minute,
			})
			waits <- err
		}()
	}
	var quota *claim.QuotaExceeded
	require.ErrorAs(t, <-waits, &quota, "of two, one is refused at once")
	require.Contains(t, quota.Error(), "the limit of organization default is")
	resumeAll(t, w)
	r.Reconciler.Missed()
	require.NoError(t, <-waits)
	require.Equal(t, 1, w.Count(t, "b", "claimed"))

	var id uuid.UUID
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT id FROM workspaces WHERE state = 'claimed' LIMIT 1").Scan(&id))
	_, err = r.Writer.Release(t.Context(), r.Writer.System("test"), id)
	require.NoError(t, err)
	res, err := w.Claim(t, r, "b", claim.Request{Mode: database.ClaimModePrefer, Wait: time.Minute})
	require.NoError(t, err)
	require.NotNil(t, res.Workspace, res.Reason)

	_, err = apidb.New(w.Store).SetQuota(t.Context(), apidb.SetQuotaParams{ID: auth.DefaultOrganizationID})
	require.NoError(t, err)
	require.Zero(t, count(t, w, "presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'b' AND p.metered"))
	require.Equal(t, 1, count(t, w, "presets WHERE metered"))
}

// What a user waits for counts against the limit of that user, and of nobody else.
func TestQuota_waitOfAnother(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true})
	w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {}
    claims: {maximum_per_user: 1}
    presets: [{name: default, prebuilds: {instances: 0}}]
`)
	bob := uuid.New()
	exec(t, w, "INSERT INTO users (id, name, created_at) VALUES ($1, 'bob', now())", bob)
	send(t.Context(), t, w, r, "a", claim.Request{Mode: database.ClaimModePrefer, Wait: 5 * time.Minute})
	coderdtest.Eventually(t, "in line", func() bool { return count(t, w, "claims WHERE state = 'waiting'") == 1 })
	req := claim.Request{
		UserID: bob, OrganizationID: auth.DefaultOrganizationID, PresetID: w.Preset(t, "a"), Source: "test",
		Mode: database.ClaimModePrefer, Wait: time.Millisecond,
	}
	res, err := r.Claims.Claim(t.Context(), req)
	require.NoError(t, err)
	require.Contains(t, res.Reason, "within 1ms", "bob waited too")
	req.UserID = w.Owner
	_, err = r.Claims.Claim(t.Context(), req)
	var quota *claim.QuotaExceeded
	require.ErrorAs(t, err, &quota)
	require.Equal(t, 1, quota.Has)
}

func ptr[T any](v T) *T { return &v }
