package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/lifecycle"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	lyingPools = 12
	lyingSize  = 10 // prebuilds of each
)

// lying is the pools, of that many prebuilds, with so much time to boot, and of that version.
func lying(size int, boot time.Duration, version int) string {
	var b strings.Builder
	b.WriteString("templates:\n")
	for n := range lyingPools {
		fmt.Fprintf(&b, `
  - name: t%d
    provider: sim
    boot_timeout: %s
    spec: {version: %d}
    presets: [{name: default, prebuilds: {instances: %d}}]
`, n, boot, version, size)
	}
	return b.String()
}

// I4, I5, I6: workspaces live and die at a provider that fails 30 %, hangs 10 % and lies 5 % of its calls. When it has
// come to its senses nothing is stuck, nothing is left and nothing is there twice.
func TestLies(t *testing.T) {
	t.Parallel()
	random, _ := random(t)
	lives, thorough := rounds(t, 300)
	ctx := t.Context()
	cloud := newLiar(random)
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(provider.Provider) provider.Provider { return cloud })
	var replicas []*coderdtest.Replica
	for range 2 {
		replicas = append(replicas, w.Start(t, coderdtest.Config{
			Tick: 500 * time.Millisecond, Lease: lease,
			Parts: func(p *replica.Parts) {
				p.Timeouts = lifecycle.Timeouts{Look: 500 * time.Millisecond, Delete: 500 * time.Millisecond}
			},
		}))
	}
	inventories := inventory.New(inventory.Options{
		Store: w.Store, Writer: replicas[0].Writer, Providers: w.Providers, Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), Replica: "inventory", Installation: w.Installation,
		Hints: hints.Local(hints.Ears{}), Grace: time.Nanosecond,
	})
	version, boot := 1, 8*time.Second // so that what hangs is over soon
	w.Apply(t, lying(lyingSize, boot, version))

	// Users claim whatever is ready and let go of it at once; one claim in ten is deleted by force, which ends although the
	// provider may say otherwise.
	using, stop := context.WithCancel(ctx)
	var users sync.WaitGroup
	var claims, forced atomic.Int64
	for n := range lyingPools {
		preset := w.Preset(t, fmt.Sprintf("t%d", n))
		r := replicas[n%len(replicas)]
		by := workspaces.Actor{UserID: w.Owner, Source: "test"}
		users.Go(func() {
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for using.Err() == nil {
				<-ticker.C
				res, err := r.Claims.Claim(ctx, claim.Request{
					UserID: w.Owner, Source: "test", PresetID: preset, Mode: database.ClaimModeRequire,
					OrganizationID: auth.DefaultOrganizationID,
				})
				if err != nil || res.Outcome != database.ClaimOutcomeHit {
					continue
				}
				if claims.Add(1)%10 == 0 {
					forced.Add(1)
					_, err = r.Writer.Delete(ctx, by, res.Workspace.ID, true)
				} else {
					_, err = r.Writer.Release(ctx, by, res.Workspace.ID)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("let go of a claimed workspace: %v", err)
				}
			}
		})
	}
	lived := func() (n int) {
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state = 'deleted'").Scan(&n))
		return n
	}
	newVersion := func() { // which is also what ends a hard limit (C8)
		version++
		w.Apply(t, lying(lyingSize, boot, version))
	}
	began, last := time.Now(), 0
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for n := 1; lived() < lives; n++ {
		<-ticker.C
		if n%20 == 0 {
			newVersion()
		}
		if now := lived(); now > last {
			last, began = now, time.Now()
		}
		require.Less(t, time.Since(began), patience, "nothing dies any more: %d lives", last)
	}
	stop()
	users.Wait()

	cloud.reform()
	boot = 5 * time.Minute // from now on a boot that takes long is the machine's doing, and to fail by it reaches the hard limit
	newVersion()
	hurry := func() { // what waits out a backoff of up to 5 min is done as it would be then
		_, err := w.Store.Pool.Exec(ctx, "UPDATE jobs SET due_at = prewarm_now() WHERE state = 'pending'")
		require.NoError(t, err)
	}
	settled := func(want int) func() bool {
		return func() bool {
			hurry()
			var open, ready, live int
			require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT
				(SELECT count(*) FROM jobs WHERE state IN ('pending', 'running')) + (SELECT count(*) FROM intents),
				count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state <> 'deleted') FROM workspaces`).
				Scan(&open, &ready, &live))
			return open == 0 && ready == want && live == want
		}
	}
	require.Eventually(t, settled(lyingPools*lyingSize), patience, 50*time.Millisecond, "every pool is full and nothing is stuck")
	swept := 0
	// Until two agree, and another for what they left. What the lies of thousands of lives left is a mass for the first
	// inventory, which opens the breaker. It closes by itself, after three that find nothing new (S3). That of 300 is none.
	for n, again := 1, true; again; n++ {
		made, err := inventories.Pass(ctx, "sim")
		require.NoError(t, err)
		if made.Breaker.Open() {
			require.True(t, thorough, made.Breaker.Reason)
			require.LessOrEqual(t, n, 3, made.Breaker.Reason)
			require.Zero(t, made.Done)
		}
		swept += made.Done
		again = made.Breaker.Open() || slices.ContainsFunc(made.Entries, func(e inventory.Entry) bool { return e.Verdict != inventory.OK })
	}
	compare(t, w, cloud)
	t.Logf("%d lives, %d claims, %d of them ended by force; the sweep removed %d; the provider: %v", lived(), claims.Load(),
		forced.Load(), swept, cloud.told)

	w.Apply(t, lying(0, boot, version))
	require.Eventually(t, settled(0), patience, 50*time.Millisecond, "all are gone")
	require.Empty(t, cloud.all())
}

// compare holds the provider's listing against the database: each live workspace has its one resource.
func compare(t *testing.T, w *coderdtest.World, cloud *liar) {
	t.Helper()
	rows, err := w.Store.Pool.Query(t.Context(), "SELECT id, provider_id FROM workspaces WHERE state <> 'deleted'")
	require.NoError(t, err)
	want := map[uuid.UUID]string{}
	for rows.Next() {
		var id uuid.UUID
		var providerID string
		require.NoError(t, rows.Scan(&id, &providerID))
		want[id] = providerID
	}
	require.NoError(t, rows.Err())
	got := map[uuid.UUID]string{}
	for _, i := range cloud.all() {
		require.NotContains(t, got, i.Tags.WorkspaceID, "twice there")
		got[i.Tags.WorkspaceID] = i.ProviderID
	}
	require.Equal(t, want, got)
}
