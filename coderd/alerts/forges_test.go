package alerts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// Forges tell whether they answer, what is left of their limits, and of their jobs and runners; what is over does not count.
func TestForges(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	for _, statement := range []string{
		`INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
		SELECT gen_random_uuid(), id, 'c', 'github', 'x', 'token', '', '', now(), now() FROM organizations LIMIT 1`,
		`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by, created_at,
			updated_at, deleted_at)
		SELECT gen_random_uuid(), organization_id, n, 'organization', n, id, '', '', now(), now(),
			CASE WHEN n = 'over' THEN now() END
		FROM forge_credentials, unnest('{up,down,limited,new,over}'::text[]) n`,
		`INSERT INTO forge_status (entity_id, asked_at, error, rate_limit, rate_remaining, rate_reset_at)
		SELECT id, CASE WHEN name <> 'new' THEN now() END, CASE WHEN name IN ('down', 'over') THEN 'gone' ELSE '' END,
			CASE WHEN name IN ('up', 'limited') THEN 5000 ELSE 0 END, 7,
			now() + CASE WHEN name = 'up' THEN interval '1 hour' ELSE interval '-1 hour' END
		FROM forge_entities`,
		`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, unserved,
			preset_id, queued_at, seen_at, updated_at)
		SELECT gen_random_uuid(), e.organization_id, 'x', n, 1, e.id, 'a/b', '{}', s::forge_job_state,
			CASE n WHEN 2 THEN 'why' ELSE '' END,
			CASE n WHEN 3 THEN gen_random_uuid() END, now() - n * interval '1 minute', now(), now()
		FROM forge_entities e, unnest('{waiting,queued,queued,in_progress,completed}'::text[]) WITH ORDINALITY j (s, n)
		WHERE e.name = 'up'`,
		`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since,
			created_at, removed_at)
		SELECT gen_random_uuid(), 0, gen_random_uuid(), e.id, 'r' || n, s::forge_runner_status, now(), now(), now(),
			CASE n WHEN 4 THEN now() END
		FROM forge_entities e, unnest('{idle,idle,active,idle,offline}'::text[]) WITH ORDINALITY r (s, n) WHERE e.name = 'up'`,
	} {
		_, err := w.Store.Pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	reg, _ := exported(w.Store)
	up := map[string]string{"forge": "up"}
	require.Equal(t, map[string]float64{"up": 1, "down": 0, "limited": 1}, scrape(t, reg, "prewarm_forge_up", nil, "forge"),
		"one that was not asked yet says nothing")
	require.Equal(t, map[string]float64{"up": 7, "limited": 5000}, scrape(t, reg, "prewarm_forge_rate_remaining", nil, "forge"),
		"a limit that was reset since is whole, and a forge without one says nothing")
	require.Equal(t, map[string]float64{"waiting": 1, "queued": 2, "in_progress": 1, "unserved": 1},
		scrape(t, reg, "prewarm_forge_jobs", up, "state"))
	require.Equal(t, map[string]float64{"waiting": 0, "queued": 0, "in_progress": 0, "unserved": 0},
		scrape(t, reg, "prewarm_forge_jobs", map[string]string{"forge": "down"}, "state"))
	oldest := scrape(t, reg, "prewarm_forge_oldest_queued_seconds", nil, "forge")
	require.InDelta(t, 180, oldest["up"], 60)
	require.Zero(t, oldest["down"])
	require.Equal(t, map[string]float64{"pending": 0, "idle": 2, "active": 1, "offline": 1, "gone": 0},
		scrape(t, reg, "prewarm_forge_runners", up, "status"))
}
