package alerts_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// BenchmarkScrape reads gauges of 1,000 presets beside 10,000 ready and 200,000 claimed workspaces: a scrape as it is most
// of the time, the one a minute that also counts the claimed, and beside them what the live counts cost.
func BenchmarkScrape(b *testing.B) {
	ctx := context.Background()
	store := dbtest.Open(b)
	dbtest.Fleet(b, store, dbtest.FleetSize{Pools: 1000, Each: 10, Claimed: 200_000})
	counts, err := json.Marshal(prebuilds.Counts{Desired: 10, Actual: 10, Eligible: 10})
	require.NoError(b, err)
	ledger, err := json.Marshal(prebuilds.Ledger{
		Creates: []prebuilds.Line{{Label: "desired", Count: 10}, {Label: "actual", Count: -10}}, Drains: []prebuilds.Line{},
	})
	require.NoError(b, err)
	_, err = store.Pool.Exec(ctx, `INSERT INTO preset_status (preset_id, counts, ledger, digest, pass_seq, changed_at)
		SELECT id, $1, $2, '', 1, now() FROM presets`, counts, ledger)
	require.NoError(b, err)
	_, err = store.Pool.Exec(ctx, "ANALYZE preset_status")
	require.NoError(b, err)

	b.Run("gauges", func(b *testing.B) {
		reader := alerts.NewReader(store, quartz.NewReal(), provider.NewRegistry(nil, nil).Refuses)
		_, err := reader.Read(ctx)
		require.NoError(b, err)
		for b.Loop() {
			reader.Forget()
			snap, err := reader.Read(ctx)
			require.NoError(b, err)
			require.Len(b, snap.Presets, 1000)
		}
	})
	b.Run("claimed, once a minute", func(b *testing.B) {
		for b.Loop() {
			_, err := alertsdb.New(store).GaugeClaimed(ctx)
			require.NoError(b, err)
		}
	})
	b.Run("specs of the claimed, each ten minutes", func(b *testing.B) {
		for b.Loop() {
			_, err := alertsdb.New(store).ClaimedSpecs(ctx)
			require.NoError(b, err)
		}
	})
	b.Run("live counts", func(b *testing.B) {
		for b.Loop() {
			_, err := viewsdb.New(store).PresetViews(ctx, viewsdb.PresetViewsParams{OrganizationID: auth.DefaultOrganizationID})
			require.NoError(b, err)
		}
	})
}
