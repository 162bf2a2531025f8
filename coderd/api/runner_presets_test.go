package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Of runners, presets show what waits for them; and nobody but a job claims one, however it is asked for, also by a replica
// that has handed out workspaces of the preset before it was one of runners.
func TestPresetsOfRunners(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	member := w.as("member")
	for range 3 {
		w.workspace("quickstart", "ready", "prewarm")
	}
	before, err := member.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require", Key: "before"})
	require.NoError(t, err)
	require.Equal(t, "hit", before.Outcome)

	exec := func(sql string, args ...any) {
		_, err := w.store.Pool.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	entity := dbtest.Forge(t, w.store, "acme", "github", "organization")
	exec(`UPDATE presets p SET forge_entity_id = $1, runner_labels = '{linux,x64}', runner_group = 'large', runner_maximum = 5,
		parameters = '{"cpu": "2"}' FROM templates t WHERE t.id = p.template_id AND t.name = 'quickstart'`, entity)
	exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, preset_id,
			queued_at, seen_at, updated_at)
		SELECT gen_random_uuid(), p.organization_id, 'https://forge.invalid', n, 1, $1, 'acme/tool', '{linux}',
			(CASE WHEN n < 5 THEN 'queued' ELSE 'completed' END)::forge_job_state, p.id, now(), now(), now()
		FROM presets p, generate_series(1, 9) n WHERE p.forge_entity_id IS NOT NULL`, entity)

	for name, req := range map[string]sdk.ClaimRequest{
		"require":       {Preset: "default", Mode: "require"},
		"prefer":        {Preset: "default", Wait: "1m"},
		"cold":          {Preset: "default", Wait: "1m", Cold: true},
		"bypass":        {Preset: "default", Mode: "bypass", Wait: "1m"},
		"several":       {Preset: "default", Count: 2},
		"by parameters": {PresetParameters: map[string]string{"cpu": "2"}},
		"the only one":  {},
		"with a key":    {Preset: "default", Key: "after", Parameters: map[string]string{"a": "b"}},
	} {
		req.Template = "quickstart"
		_, err := member.Claim(ctx, req)
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%s: %v", name, err)
		want := "preset quickstart/default is of runners: jobs of forge acme claim them"
		if req.Preset == "" {
			want = "template quickstart has presets of runners only: jobs of their forges claim them"
		}
		require.ErrorContains(t, err, want, name)
	}
	again, err := member.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require", Key: "before"})
	require.NoError(t, err)
	require.Equal(t, before.WorkspaceID, again.WorkspaceID, "a request that is repeated has its answer")
	for _, table := range []string{"claims WHERE state = 'waiting'", "claims WHERE outcome = 'miss'", "claim_parameters"} {
		var n int
		require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
		require.Zero(t, n, "%s: a refusal leaves nothing", table)
	}

	p, err := w.as("auditor").Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Equal(t, &sdk.RunnerSettings{Forge: "acme", Labels: []string{"linux", "x64"}, Group: "large", Maximum: 5, RegistrationTimeout: "10m0s"}, p.Runner)
	require.Equal(t, 4, p.Queued)
	require.Equal(t, 1, p.Claimed)
	exec("UPDATE forge_jobs SET preset_id = NULL WHERE job_id < 5")
	p, err = w.as("auditor").Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Zero(t, p.Queued)
}
