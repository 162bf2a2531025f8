package inventory_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (b *bench) deleteSim(force bool) {
	b.t.Helper()
	b.deleteProvider("sim", force)
}

// deleteProvider does what the API does for a person.
func (b *bench) deleteProvider(name string, force bool) {
	b.t.Helper()
	by := auth.Identity{
		Principal:  auth.Principal{UserID: auth.BuiltinUserID, User: "prewarm"},
		Membership: auth.Membership{OrganizationID: auth.DefaultOrganizationID, Role: database.RoleOwner},
	}
	var affected []uuid.UUID
	require.NoError(b.t, b.Store.InTx(context.Background(), database.TxOptions{Label: "delete provider"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			if affected, _, err = templates.DeleteProvider(ctx, tx, by, name, force); err != nil || !force {
				return err
			}
			return workspaces.ForceAt(ctx, tx, name)
		}))
	b.replica.Reconciler.Nudge(affected...)
	b.replica.Hints.Wake()
}

// listed retires what is empty, as a replica does now and then, and says whether the provider is still there.
func (b *bench) listed() bool {
	b.t.Helper()
	require.NoError(b.t, b.service(b.Installation).Retire(context.Background()))
	rows, err := viewsdb.New(b.Store).Providers(context.Background())
	require.NoError(b.t, err)
	for _, row := range rows {
		if row.Name == "sim" {
			return true
		}
	}
	return false
}

// unlisted makes inventories until the provider is retired.
func (b *bench) unlisted() bool {
	b.t.Helper()
	if !b.listed() {
		return true
	}
	_, err := b.service(b.Installation).Pass(context.Background(), "sim")
	require.NoError(b.t, err)
	return !b.listed()
}

func (b *bench) release(id uuid.UUID) {
	b.t.Helper()
	moved, err := workspaces.New(b.Store, workspaces.NewID, "test").Release(context.Background(), workspaces.Actor{UserID: b.Owner}, id)
	require.NoError(b.t, err)
	b.replica.Hints.Nudge(moved.TemplateID)
	b.replica.Hints.Wake()
}

// A provider that is deleted by force while it is in use: its pool runs empty with the reason, what is claimed goes on (I2), and
// with the last of it the provider is retired. What was left there is on record.
func TestDeletedProvider(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.warm(2)
	mine, err := b.Claim(t, b.replica, "t", claim.Request{Mode: database.ClaimModeRequire})
	require.NoError(t, err)
	coderdtest.Eventually(t, "the pool is warm again", func() bool { return b.Warm(t, "t") == 2 })
	b.pass()
	b.deleteSim(true)

	coderdtest.Eventually(t, "the pool runs empty", func() bool {
		return b.Count(t, "t", "provisioning", "starting", "ready", "draining", "deleting") == 0
	})
	coderdtest.Eventually(t, "it says why", func() bool {
		return strings.Contains(b.one("SELECT ledger::text FROM preset_status"), `"code": "provider_deleted"`)
	})
	require.Equal(t, "claimed", b.one("SELECT state::text FROM workspaces WHERE id = $1", mine.Workspace.ID))
	require.True(t, b.has(mine.Workspace.Name))
	b.pass()
	require.True(t, b.listed(), "something is left there")
	missed, err := b.Claim(t, b.replica, "t", claim.Request{Mode: database.ClaimModePrefer, Wait: time.Hour})
	require.NoError(t, err)
	require.Equal(t, prebuilds.ProviderDeleted, missed.ReasonCode, "nobody waits for what is never made")
	var record struct {
		Workspaces map[string]int
		Resources  []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(b.one("SELECT after::text FROM audit_log WHERE action = 'provider.delete'")), &record))
	require.Equal(t, map[string]int{"claimed": 1, "ready": 2}, record.Workspaces)
	require.Len(t, record.Resources, 3)

	b.release(mine.Workspace.ID)
	coderdtest.Eventually(t, "it is retired with the last", b.unlisted)
	require.False(t, b.has(mine.Workspace.Name))
	require.Equal(t, "0", b.one("SELECT count(*)::text FROM inventories"), "it is not inventoried")
	use, err := viewsdb.New(b.Store).ProviderUse(ctx)
	require.NoError(t, err)
	require.Empty(t, use, "it is not counted")
	require.Equal(t, "0", b.one("SELECT count(*)::text FROM jobs WHERE state IN ('pending', 'running')"))
	require.Equal(t, "1", b.one("SELECT count(*)::text FROM audit_log WHERE action = 'provider.retire'"))
	res, err := b.service(b.Installation).Pass(ctx, "sim")
	require.NoError(t, err)
	require.True(t, res.Held, "nobody makes an inventory of it")
}

// A provider that is gone for good and deleted by force: nothing waits for it. What was being deleted there, and what its
// prebuilds have, is given up with the reason although its breaker is open; what is claimed stays, and goes with its release.
func TestDeletedProvider_givenUp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.warm(3)
	mine, err := b.Claim(t, b.replica, "t", claim.Request{Mode: database.ClaimModeRequire})
	require.NoError(t, err)
	coderdtest.Eventually(t, "the pool is warm again", func() bool { return b.Warm(t, "t") == 3 })
	b.pass()
	b.cloud.mute.Store(true)
	b.cloud.stuck.Store(true)
	going := b.one("SELECT id::text FROM workspaces WHERE state = 'ready' LIMIT 1")
	_, err = workspaces.New(b.Store, workspaces.NewID, "test").Delete(ctx, workspaces.Actor{UserID: b.Owner}, uuid.MustParse(going), false)
	require.NoError(t, err)
	b.replica.Hints.Wake()
	coderdtest.Eventually(t, "its delete fails", func() bool {
		return b.one("SELECT count(*)::text FROM jobs WHERE kind = 'delete' AND failures > 0") == "1"
	})
	b.exec("UPDATE jobs SET due_at = prewarm_now() + interval '5 minutes' WHERE kind = 'delete' AND state = 'pending'")
	b.exec("UPDATE inventories SET opened_at = prewarm_now(), reason = 'it does not answer', changed_at = prewarm_now()")

	b.deleteSim(true)
	coderdtest.Eventually(t, "nothing is left but what is claimed", func() bool {
		return b.one("SELECT count(*)::text FROM workspaces WHERE state NOT IN ('deleted', 'claimed')") == "0"
	})
	require.Contains(t, b.one("SELECT fault FROM workspaces WHERE id = $1", going), "deleted by force although: ")
	require.Contains(t, b.one("SELECT string_agg(fault, ',') FROM workspaces WHERE state = 'deleted'"), "given up with its provider although: ")
	require.Equal(t, "claimed", b.one("SELECT state::text FROM workspaces WHERE id = $1", mine.Workspace.ID))
	b.exec("UPDATE providers SET deleted_at = deleted_at - interval '1 hour'")
	require.True(t, b.listed(), "somebody has a workspace there")
	b.release(mine.Workspace.ID)
	coderdtest.Eventually(t, "it is retired with the last", func() bool { return !b.listed() })
	require.Contains(t, b.one("SELECT reason FROM audit_log WHERE action = 'provider.retire'"), "deleted by force")
}

// Prebuilds of an older version at a provider that is deleted by force are not kept until the new version, elsewhere, has
// replaced them.
func TestDeletedProvider_ofAnOlderVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(2)
	b.replica.Reconciler.Nudge(b.Apply(t, `
providers: [{name: other, kind: sim}]
templates:
  - name: t
    provider: other
    spec: {create_latency: 1h}
    presets: [{name: default, prebuilds: {instances: 2}}]
`)...)
	coderdtest.Eventually(t, "they are kept beside the new version", func() bool {
		return strings.Contains(b.one("SELECT coalesce(max(ledger::text), '') FROM preset_status"), `"code": "kept_until_replaced"`)
	})
	require.Equal(t, "2", b.one("SELECT count(*)::text FROM workspaces WHERE provider = 'sim' AND state = 'ready'"))
	b.deleteSim(true)
	coderdtest.Eventually(t, "they are gone", func() bool {
		return b.one("SELECT count(*)::text FROM workspaces WHERE provider = 'sim' AND state <> 'deleted'") == "0"
	})
}

// Two providers that look at the same place: what the other one has there keeps none listed.
func TestDeletedProvider_besideAnother(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t)
	b.warm(2)
	b.Apply(t, "providers: [{name: other, kind: sim}]")
	b.Providers.Update([]provider.Row{{Name: "sim", Kind: "sim"}, {Name: "other", Kind: "sim"}})
	b.deleteProvider("other", false)
	res, err := b.service(b.Installation).Pass(ctx, "other")
	require.NoError(t, err)
	require.Empty(t, res.Entries)
	require.NoError(t, b.service(b.Installation).Retire(ctx))
	require.Equal(t, "other", b.one("SELECT string_agg(name, ',') FROM providers WHERE emptied_at IS NOT NULL"))
	require.Equal(t, 2, b.Warm(t, "t"))
}

// Without force the word of an inventory is needed, of a time after the deletion: what no row knows is swept first (I4). By
// force it is waited for only so long, and what was found amiss is on record.
func TestDeletedProvider_needsAnInventory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("UPDATE providers SET confirmed_at = prewarm_now()")
	b.pass()
	b.stray("prebuild-stray", b.Installation)
	b.deleteSim(false)
	require.True(t, b.listed(), "no inventory was made since")
	b.pass()
	require.True(t, b.listed(), "the inventory found something")
	coderdtest.Eventually(t, "the stray is swept", func() bool { b.pass(); return !b.has("prebuild-stray") })
	b.cloud.mute.Store(true)
	b.pass()
	require.True(t, b.listed(), "the last inventory was not complete")
	b.cloud.mute.Store(false)
	b.pass()
	require.False(t, b.listed())

	b.Apply(t, "providers: [{name: sim, kind: sim, maximum: 7}]")
	require.True(t, b.listed(), "it was applied again")
	b.exec("UPDATE providers SET confirmed_at = NULL")
	b.stray("prebuild-left", b.Installation)
	b.pass()
	b.deleteSim(true)
	require.True(t, b.listed(), "it may still be swept")
	b.exec("UPDATE providers SET deleted_at = deleted_at - interval '10 minutes'")
	require.False(t, b.listed(), "by force that has an end")
	require.Contains(t, b.one("SELECT before::text FROM audit_log WHERE action = 'provider.retire' ORDER BY id DESC LIMIT 1"), "prebuild-left")
}
