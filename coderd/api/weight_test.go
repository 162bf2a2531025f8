package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A page is never too heavy, whatever providers say of an outage, and nothing is left out by that: the rest is on the next.
func TestLists_pagesHaveAWeight(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	const many = 400
	owner := w.as("owner")
	light := func(path string) {
		a := w.call(w.token["owner"], http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, a.status)
		require.Less(t, len(a.body), 1_000_000, path)
		require.Greater(t, len(a.body), 500_000, "%s: it is not a small page that is light", path)
	}

	// Workspaces that failed, each with as much as is kept of an error.
	w.exec(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key,
		  provider, parameters, state, fault, owner_id, created_at, state_at)
		SELECT gen_random_uuid(), 'prebuild-' || n, p.organization_id, p.template_id, t.active_version_id, p.id,
		  p.pool_key, 'roomy', '{}', 'quarantined', repeat('"<ü>', 2000), $2, now() - n * interval '1 s', now()
		FROM generate_series(1, $1) n, presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart'`,
		many, w.owner.UserID)
	light("/api/v1/workspaces?limit=500")
	seen := map[uuid.UUID]bool{}
	for filter := sdkFilter("", 500, ""); ; {
		list, err := owner.Workspaces(ctx, filter)
		require.NoError(t, err)
		for _, one := range list.Workspaces {
			require.False(t, seen[one.ID], "twice")
			seen[one.ID] = true
		}
		if filter.After = list.Next; filter.After == "" {
			break
		}
	}
	require.Len(t, seen, many)

	// Pools of which everything is wrong.
	w.exec(`INSERT INTO presets (id, organization_id, template_id, name, pool_key, instances, created_at, updated_at)
		SELECT gen_random_uuid(), p.organization_id, p.template_id, 'preset-' || n, gen_random_uuid(), 20, now(), now()
		FROM generate_series(1, $1) n, presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart'`, 2*many)
	w.exec(`INSERT INTO preset_failures (preset_id, pool_key, streak, last_error, last_at, first_at)
		SELECT id, pool_key, 3, repeat('€', 2000), now(), now() FROM presets`)
	w.exec(`INSERT INTO preset_status (preset_id, counts, ledger, error, digest, pass_seq, changed_at)
		SELECT id, '{}', 'null', repeat('€', 2000), '', 1, now() FROM presets
		ON CONFLICT (preset_id) DO UPDATE SET error = excluded.error`)
	light("/api/v1/pools?limit=500")
	pools := map[uuid.UUID]bool{}
	for after := ""; ; {
		list, err := owner.Pools(ctx, nil, 500, after)
		require.NoError(t, err)
		for _, one := range list.Pools {
			require.False(t, pools[one.ID], "twice")
			pools[one.ID] = true
		}
		if after = list.Next; after == "" {
			break
		}
	}
	require.Len(t, pools, 2*many+2)

	// Changes that wrote long documents.
	w.exec(`INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, after)
		SELECT now(), $2, $3, 'template.test', 'template', n::text, jsonb_build_object('spec', repeat('x', 40000))
		FROM generate_series(1, $1) n`, many/8, w.owner.UserID, w.owner.OrganizationID)
	light("/api/v1/audit?limit=500&action=template.test")
	entries := map[int64]bool{}
	for before := int64(0); ; {
		list, err := owner.Audit(ctx, sdk.AuditFilter{Action: "template.test", Limit: 500, Before: before})
		require.NoError(t, err)
		for _, one := range list.Entries {
			require.False(t, entries[one.ID], "twice")
			entries[one.ID] = true
		}
		if before = list.Next; before == 0 {
			break
		}
	}
	require.Len(t, entries, many/8)
}
