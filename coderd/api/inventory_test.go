package api_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// openBreaker opens the breaker of a provider, as an inventory does.
const openBreaker = `INSERT INTO inventories (provider, leased_until, due_at, full_at, opened_at, reason)
	VALUES ($1, now(), now() + interval '1 hour', now(), now(), 'the listing failed: no answer')`

// Both sides are shown with a verdict and what follows, and nothing is done by looking; a person closes a breaker and
// confirms a provider.
func TestInventory(t *testing.T) {
	t.Parallel()
	w, cloud, client := cloudy(t)
	ctx := t.Context()
	admin := client("admin")
	_, err := w.store.Pool.Exec(ctx, openBreaker, "cloud")
	require.NoError(t, err)
	_, err = w.store.Pool.Exec(ctx, "UPDATE providers SET confirmed_at = NULL WHERE name = 'cloud'")
	require.NoError(t, err)

	list, err := client("auditor").Inventories(ctx, "cloud")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Empty(t, list[0].Entries)
	require.False(t, list[0].Confirmed)
	require.Equal(t, "the listing failed: no answer", list[0].Breaker.Reason)
	providers, err := admin.Providers(ctx)
	require.NoError(t, err)
	require.NotNil(t, providers[1].Breaker)

	resumed, err := admin.ResumeProvider(ctx, "cloud")
	require.NoError(t, err)
	require.Nil(t, resumed.Breaker)
	confirmed, err := admin.ConfirmProvider(ctx, "cloud")
	require.NoError(t, err)
	require.True(t, confirmed.Confirmed)
	again, err := admin.ConfirmProvider(ctx, "cloud")
	require.NoError(t, err)
	require.Equal(t, confirmed, again)

	_, err = cloud.Create(ctx, provider.CreateRequest{
		Name: "stray", Tags: provider.Tags{Installation: w.installation, WorkspaceID: uuid.New(), Incarnation: 1},
	})
	require.NoError(t, err)
	list, err = admin.Inventories(ctx, "cloud")
	require.NoError(t, err)
	require.Nil(t, list[0].Breaker)
	require.Equal(t, []sdk.InventoryEntry{{
		Verdict: "unknown", Resource: "stray", ProviderID: list[0].Entries[0].ProviderID, Status: "running",
		Detail: "no row has it, and it was made when nobody was at work on this database", Next: "is shown, and left alone",
	}}, list[0].Entries)
	all, err := cloud.All()
	require.NoError(t, err)
	require.Len(t, all, 1)

	require.Equal(t, map[string]int{"unknown": 1}, list[0].Counts)
	few, err := admin.Discrepancies(ctx, "cloud", 1)
	require.NoError(t, err)
	require.Equal(t, list[0].Entries, few[0].Entries, "it is a discrepancy")
	providers, err = admin.Providers(ctx)
	require.NoError(t, err)
	require.Equal(t, []sdk.SiteInventory{{}}, providers[1].Sites, "one was begun, and none has ended")

	everything, err := admin.Inventories(ctx, "")
	require.NoError(t, err)
	require.Len(t, everything, 4)
	require.NotEmpty(t, everything[0].Error, "one that does not work says why")
	_, err = admin.Inventories(ctx, "nowhere")
	require.ErrorContains(t, err, "nowhere")
}
