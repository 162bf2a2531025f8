package api_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

// TestListsAtScale: claimed rows beside cost the lists nothing but the index-only count of claimed ones, however many
// there are: also with the generic plan that a prepared statement comes to, and with other ideas of what a page costs.
// The number can be raised by the environment; the plans are the same.
func TestListsAtScale(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	beside := 20_000
	if given, err := strconv.Atoi(os.Getenv("PREWARM_TEST_CLAIMED")); err == nil {
		beside = given
	}
	for range 20 {
		w.workspace("quickstart", "ready", "prewarm")
	}
	mine := w.workspace("quickstart", "claimed", "member")
	_, err := w.store.Pool.Exec(ctx, `
		INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
		  parameters, state, owner_id, claim_id, created_at, state_at, ready_at)
		SELECT gen_random_uuid(), 'prebuild-' || n, organization_id, template_id, template_version_id, preset_id, pool_key,
		  provider, '{}', 'claimed', $1, gen_random_uuid(), now(), now(), now()
		FROM generate_series(2, $2) n, (SELECT * FROM workspaces LIMIT 1) one`, w.owner.UserID, beside)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // a transaction elsewhere can keep pages from being marked visible to all
		_, err := w.store.Pool.Exec(ctx, "VACUUM ANALYZE workspaces")
		require.NoError(t, err)
		var visible bool
		require.NoError(t, w.store.Pool.QueryRow(ctx,
			"SELECT relallvisible = relpages FROM pg_class WHERE relname = 'workspaces'").Scan(&visible))
		return visible
	}, eventually, poll)

	organization := "'" + auth.DefaultOrganizationID.String() + "'"
	page := map[string]string{
		"organization_id": organization, "max_workspaces": "100", "claimed": "true", "unclaimed": "true", "deleted": "false",
	}
	with := func(name, value string) map[string]string {
		changed := map[string]string{name: value}
		for k, v := range page {
			if k != name {
				changed[k] = v
			}
		}
		return changed
	}
	ready := with("claimed", "false")
	ready["state"] = "'ready'"
	for _, settings := range []string{
		"", "SET LOCAL random_page_cost = 1.1", "SET LOCAL random_page_cost = 1.1; SET LOCAL jit = on",
	} {
		for name, params := range map[string]map[string]string{
			"PresetViews":     {"organization_id": organization},
			"WorkspacePage":   ready,
			"WorkspaceView":   {"organization_id": organization, "name": "'" + mine.Name + "'"},
			"WorkspacePageOf": with("owner_id", "'"+mine.OwnerID.String()+"'"),
		} {
			w.explain(name, settings, params).walk(func(n node) {
				if n.Relation != "workspaces" {
					return
				}
				seen := (n.Rows + n.Removed) * n.Loops
				if n.Index == "workspaces_claimed" {
					require.Equal(t, "Index Only Scan", n.Type, settings)
					require.Zero(t, n.Fetches, "the table itself is not touched")
					require.LessOrEqual(t, seen, float64(beside), "once for all presets")
					return
				}
				require.LessOrEqual(t, seen, float64(60), "%s: %s %s reads claimed rows (%s)", name, n.Type, n.Index, settings)
			})
		}
		w.explainOf("claims.sql", "BoundClaimsOf", settings, map[string]string{
			"organization_id": organization, "user_id": "'" + mine.OwnerID.String() + "'", "max_claims": "100",
		}).walk(func(n node) {
			if n.Relation == "workspaces" {
				require.LessOrEqual(t, (n.Rows+n.Removed)*n.Loops, float64(1), "a member's claims read others' (%s)", settings)
			}
		})
	}
	preset, err := w.as("member").Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Equal(t, beside, preset.Claimed)
	require.Equal(t, 20, preset.Eligible)
	list, err := w.as("member").Workspaces(ctx, sdkFilter("", 0, ""))
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{mine.ID}, []uuid.UUID{list.Workspaces[0].ID})
	require.Equal(t, http.StatusOK, w.call(w.token["admin"], http.MethodGet, "/api/v1/workspaces", "").status)
}

var (
	optional = regexp.MustCompile(`sqlc\.narg\((\w+)\)`)
	required = regexp.MustCompile(`@(\w+)`)
)

// explain runs a query of queries/views/views.sql with the plan that fits any parameters. A parameter that is not given is
// NULL.
func (w *world) explain(name, settings string, params map[string]string) node {
	w.t.Helper()
	return w.explainOf("views.sql", name, settings, params)
}

// explainOf is explain of a query of another file.
func (w *world) explainOf(file, name, settings string, params map[string]string) node {
	w.t.Helper()
	ctx := context.Background()
	source, err := os.ReadFile("../../queries/views/" + file)
	require.NoError(w.t, err)
	_, query, found := strings.Cut(string(source), "-- name: "+name+" ")
	require.True(w.t, found, name)
	_, query, _ = strings.Cut(query, "\n")
	query, _, _ = strings.Cut(query, ";\n")
	query = regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(query, "")
	numbers, values := map[string]string{}, []string{}
	number := func(pattern *regexp.Regexp) func(string) string {
		return func(match string) string {
			p := pattern.FindStringSubmatch(match)[1]
			if numbers[p] == "" {
				value, given := params[p]
				if !given {
					value = "NULL"
				}
				values = append(values, value)
				numbers[p] = fmt.Sprintf("$%d", len(values))
			}
			return numbers[p]
		}
	}
	query = optional.ReplaceAllStringFunc(query, number(optional))
	query = required.ReplaceAllStringFunc(query, number(required))

	tx, err := w.store.Pool.Begin(ctx)
	require.NoError(w.t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Conn().PgConn().Exec(ctx, "SET LOCAL plan_cache_mode = force_generic_plan; "+settings+
		"; PREPARE q AS "+query).ReadAll()
	require.NoError(w.t, err)
	var plan []struct{ Plan node }
	require.NoError(w.t, tx.QueryRow(ctx,
		"EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) EXECUTE q ("+strings.Join(values, ", ")+")").Scan(&plan))
	_, err = tx.Exec(ctx, "DEALLOCATE q")
	require.NoError(w.t, err)
	return plan[0].Plan
}

// node is one of a plan, as EXPLAIN tells it.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Fetches  float64 `json:"Heap Fetches"`
	Plans    []node  `json:"Plans"`
}

func (n node) walk(visit func(node)) {
	visit(n)
	for _, p := range n.Plans {
		p.walk(visit)
	}
}
