package workspaces_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// situation is a workspace in a state, with the job and the claim that it has there.
type situation struct {
	name       string
	state      database.WorkspaceState
	job        string // its kind, running in its first attempt; empty: none
	unleased   bool   // the job was never leased
	vain       bool   // the job failed, and waits to be tried again
	failed     bool   // the job failed, and is over
	providerID string
	// incarnation, 1 where 0.
	incarnation int32
}

var situations = []situation{
	{name: "provisioning", state: "provisioning", job: "create"},
	{name: "provisioning, never leased", state: "provisioning", job: "create", unleased: true},
	{name: "starting", state: "starting", job: "probe", providerID: "p"},
	{name: "starting, being reset", state: "starting", job: "reset", providerID: "p", incarnation: 2},
	{name: "ready", state: "ready", providerID: "p"},
	{name: "starting, out of standby", state: "starting", job: "start", providerID: "p"},
	{name: "standby", state: "standby", providerID: "p"},
	{name: "standby, being stopped", state: "standby", job: "stop", providerID: "p"},
	{name: "claimed", state: "claimed", providerID: "p"},
	{name: "claimed, out of standby", state: "claimed", job: "start", providerID: "p"},
	{name: "claimed, and started", state: "claimed", job: "probe", providerID: "p"},
	{name: "claimed, being handed over", state: "claimed", job: "handover", providerID: "p"},
	{name: "claimed, not handed over", state: "claimed", job: "handover", failed: true, providerID: "p"},
	{name: "draining", state: "draining", job: "drain", providerID: "p"},
	{name: "deleting", state: "deleting", job: "delete", providerID: "p"},
	{name: "deleting, in vain", state: "deleting", job: "delete", vain: true, providerID: "p"},
	{name: "deleted", state: "deleted"},
	{name: "quarantined", state: "quarantined", providerID: "p"},
	{name: "quarantined, never made", state: "quarantined"},
}

// bench is a database with one pool, in which one workspace at a time is put into a situation.
type bench struct {
	*coderdtest.World
	t      *testing.T
	writer *workspaces.Writer
	preset uuid.UUID
	ws     workspaces.Lease // of the workspace in it, and the job it has or would have
	claim  uuid.UUID
}

func newBench(t *testing.T) *bench {
	t.Helper()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 1, 1)
	b := &bench{World: w, t: t, writer: workspaces.New(w.Store, uuid.New, "test"), preset: w.Preset(t, "a")}
	b.exec(`UPDATE template_versions SET spec = '{"apply_on_claim": "after"}'`)
	b.exec(`INSERT INTO signing_keys (id, secret, created_at) VALUES ($1, decode(repeat('00', 32), 'hex'), now())`, uuid.New())
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.Store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(b.t, err)
}

// put empties the pool and puts one workspace into it. Its template keeps a failure and has workspaces used twice, or not.
func (b *bench) put(s situation, keeps, reuses bool) {
	b.t.Helper()
	b.exec(`DELETE FROM workspaces; DELETE FROM claims; DELETE FROM workspace_history; DELETE FROM audit_log;
		DELETE FROM preset_failures; DELETE FROM intents`) // what hangs on workspaces goes with them; quicker than a truncation
	b.exec(`UPDATE templates SET keep_failures = CASE WHEN $1 THEN 1 ELSE 0 END, max_uses = CASE WHEN $2 THEN 3 ELSE 1 END`,
		keeps, reuses)
	b.ws = workspaces.Lease{JobID: uuid.New(), Attempt: 1, WorkspaceID: uuid.New(), Incarnation: max(1, s.incarnation)}
	b.claim = uuid.New()
	b.exec(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
		  parameters, state, incarnation, owner_id, claim_id, provider_id, created_at, state_at, ready_at, deleted_at)
		SELECT $1::uuid, 'w-' || $1::uuid::text, p.organization_id, p.template_id, t.active_version_id, p.id, p.pool_key, t.provider,
		  '{}', $2::text::workspace_state, $3, CASE WHEN $2 = 'claimed' THEN $6::uuid ELSE $7::uuid END,
		  CASE WHEN $2 = 'claimed' THEN $4::uuid END, $5, now() - interval '1 hour', now(),
		  CASE WHEN $2 IN ('ready', 'standby', 'claimed') THEN now() END, CASE WHEN $2 = 'deleted' THEN now() END
		FROM presets p JOIN templates t ON t.id = p.template_id`,
		b.ws.WorkspaceID, string(s.state), b.ws.Incarnation, b.claim, s.providerID, b.Owner, workspaces.Prewarm)
	b.exec(`INSERT INTO agents (workspace_id, incarnation, attempt, key_id, heartbeat_timeout_s, status, created_at, heartbeat_at)
		SELECT $1, $2, 1, k.id, 60, 'ready', now(), now() - interval '1 hour' FROM signing_keys k`,
		b.ws.WorkspaceID, b.ws.Incarnation)
	if s.state == "claimed" {
		b.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation,
			  created_at, bound_at)
			SELECT $1, organization_id, id, $2, 'require', 'bound', 'hit', $3, $4, now(), now() FROM presets`,
			b.claim, b.Owner, b.ws.WorkspaceID, b.ws.Incarnation)
	}
	if s.job != "" {
		b.exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, attempt, due_at, leased_by, created_at, failures, finished_at)
			SELECT $1, $2, $3, $4::text::job_kind, 'sim', CASE WHEN $7 THEN 'failed' WHEN $5 OR $6 THEN 'pending' ELSE 'running' END::job_state,
			  CASE WHEN $5 THEN 0 ELSE 1 END, now() + interval '1 minute', CASE WHEN $5 OR $6 THEN '' ELSE 'test' END, now(),
			  CASE WHEN $6 THEN 1 ELSE 0 END, CASE WHEN $7 THEN now() - interval '1 hour' END`,
			b.ws.JobID, b.ws.WorkspaceID, b.ws.Incarnation, s.job, s.unleased, s.vain, s.failed)
	}
}

// after is what a transition left.
type after struct {
	State       string
	Incarnation int32
	Claim       *uuid.UUID
	Provider    string
	OldJob      string // state of the job that the workspace had
	Jobs        []string
	History     []string // from -> to
	Same        bool     // all of it was written by one transaction
	Claims      []string
	Streak      int
	Log         string
}

// look reads what is there. Rows of one transaction have one xmin.
func (b *bench) look() after {
	b.t.Helper()
	var a after
	var raw []byte
	require.NoError(b.t, b.Store.Pool.QueryRow(context.Background(), `
		SELECT json_build_object(
		  'State', w.state, 'Incarnation', w.incarnation, 'Claim', w.claim_id, 'Provider', w.provider_id,
		  'OldJob', coalesce((SELECT j.state::text FROM jobs j WHERE j.id = $2), ''),
		  'Jobs', coalesce((SELECT json_agg(j.kind) FROM jobs j WHERE j.id <> $2 AND j.incarnation = w.incarnation
		                      AND j.state = 'pending'), '[]'),
		  'History', coalesce((SELECT json_agg(h.from_state || ' -> ' || h.to_state) FROM workspace_history h
		                       WHERE h.reason <> '' AND h.incarnation = w.incarnation), '[]'),
		  'Same', NOT EXISTS (SELECT FROM workspace_history h WHERE h.xmin <> w.xmin)
		      AND NOT EXISTS (SELECT FROM jobs j WHERE j.xmin <> w.xmin AND (j.finished_at < now() - interval '1 minute') IS NOT TRUE)
		      AND NOT EXISTS (SELECT FROM audit_log l WHERE l.xmin <> w.xmin),
		  'Claims', coalesce((SELECT json_agg(c.state) FROM claims c), '[]'),
		  'Streak', coalesce((SELECT sum(f.streak) FROM preset_failures f), 0),
		  'Log', coalesce((SELECT l.log FROM failure_logs l), ''))
		FROM workspaces w WHERE w.id = $1`, b.ws.WorkspaceID, b.ws.JobID).Scan(&raw))
	require.NoError(b.t, json.Unmarshal(raw, &a))
	return a
}

// dump is everything that a transition could change.
func (b *bench) dump() string {
	b.t.Helper()
	var s string
	require.NoError(b.t, b.Store.Pool.QueryRow(context.Background(), `
		SELECT concat_ws(E'\n',
		  (SELECT json_agg(x) FROM workspaces x), (SELECT json_agg(x) FROM jobs x), (SELECT json_agg(x) FROM claims x),
		  (SELECT json_agg(x) FROM workspace_history x), (SELECT json_agg(x) FROM audit_log x),
		  (SELECT json_agg(x) FROM preset_failures x), (SELECT json_agg(x) FROM agents x),
		  (SELECT json_agg(x) FROM failure_logs x), (SELECT json_agg(x) FROM intents x),
		  (SELECT json_agg(x) FROM reconcile_fence x))`).Scan(&s))
	return s
}
