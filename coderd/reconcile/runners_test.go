package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// runnerPool is a pool of runners at which nobody but the test works.
type runnerPool struct {
	*coderdtest.World
	t       *testing.T
	replica *coderdtest.Replica
	preset  uuid.UUID
	entity  uuid.UUID
	nextJob int
}

func newRunnerPool(t *testing.T, instances int) *runnerPool {
	t.Helper()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	p := &runnerPool{World: w, t: t, entity: dbtest.Forge(t, w.Store, "acme", "github", "organization")}
	w.Pool(t, "a", instances, 1)
	p.preset = w.Preset(t, "a")
	p.exec("UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux}'", p.entity)
	// Deaf: who begins to listen makes a full pass once it does, between any two steps of the test.
	p.replica = w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, Deaf: true})
	coderdtest.Eventually(t, "the first pass", func() bool { return p.Count(t, "a", "provisioning") == instances })
	return p
}

func (p *runnerPool) exec(sql string, args ...any) {
	p.t.Helper()
	_, err := p.Store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(p.t, err)
}

func (p *runnerPool) one(sql string, args ...any) (n int) {
	p.t.Helper()
	require.NoError(p.t, p.Store.Pool.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// queue makes jobs that wait for a runner of this preset, and as many of no preset, which are nobody's demand.
func (p *runnerPool) queue(n int) {
	p.t.Helper()
	for range n {
		p.nextJob++
		p.exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, preset_id,
				queued_at, seen_at, updated_at)
			SELECT gen_random_uuid(), organization_id, 'https://forge.invalid', $1 + x.more, 1, $2, 'acme/tool', '{linux}', 'queued',
				CASE WHEN x.more = 0 THEN $3::uuid END, now(), now(), now()
			FROM forge_entities, (VALUES (0), (100000)) x (more) WHERE forge_entities.id = $2`, p.nextJob, p.entity, p.preset)
	}
}

func (p *runnerPool) pass() {
	p.t.Helper()
	coderdtest.Eventually(p.t, "a pass that has the lock", func() bool {
		res, err := p.replica.Reconciler.Pass(context.Background())
		require.Empty(p.t, res.Errors)
		return err == nil
	})
}

func (p *runnerPool) going() int { return p.one("SELECT count(*) FROM intents") }

// P3: each queued job is demand on top of the least that are idle, once; nothing is created for it again, and its workspace
// is built before those of pools.
func TestRunners_jobsAreDemand(t *testing.T) {
	p := newRunnerPool(t, 2)
	p.queue(5)
	p.pass()
	require.Equal(t, 7, p.Count(t, "a", "provisioning"))
	p.pass()
	require.Equal(t, 7, p.Count(t, "a", "provisioning"), "a job counts once")
	require.Equal(t, 5, p.one("SELECT count(*) FROM jobs WHERE priority = $1", workspaces.PriorityPerson))

	p.queue(1)
	p.replica.Reconciler.Nudge(p.Pool(t, "b", 0, 1)...) // of another template
	p.replica.Reconciler.Nudge(p.template())
	coderdtest.Eventually(t, "a nudge counts jobs too", func() bool { return p.Count(t, "a", "provisioning") == 8 })
	require.Equal(t, 6, p.one("SELECT (counts ->> 'queued')::int FROM preset_status WHERE preset_id = $1", p.preset))
	require.Zero(t, p.going())
}

// C5, P3: a workspace's reason says which one of how many it is. Ready ones, those on their way, waiting claims and queued jobs
// all count.
func TestRunners_reasonOfACreate(t *testing.T) {
	t.Parallel()
	p := newRunnerPool(t, 3)
	p.exec(`UPDATE workspaces SET state = 'ready', ready_at = now() WHERE id = (SELECT id FROM workspaces ORDER BY id LIMIT 1)`)
	p.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at)
		SELECT gen_random_uuid(), organization_id, id, $2, 'prefer', 'waiting', now(), now() + interval '1 hour'
		FROM presets WHERE id = $1`, p.preset, p.Owner)
	p.queue(4)
	p.exec("DELETE FROM workspace_history") // the reasons of the first pass
	p.pass()
	rows, err := p.Store.Pool.Query(context.Background(), "SELECT reason FROM workspace_history WHERE from_state IS NULL")
	require.NoError(t, err)
	reasons, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"C5: 4 of 8", "C5: 5 of 8", "C5: 6 of 8", "C5: 7 of 8", "C5: 8 of 8"}, reasons)
}

func (p *runnerPool) template() (id uuid.UUID) {
	require.NoError(p.t, p.Store.Pool.QueryRow(context.Background(), "SELECT template_id FROM presets WHERE id = $1", p.preset).Scan(&id))
	return id
}

// P1: of a forge that a person has stopped nothing is made, whatever is missing, and the status says why as a code. A drain has
// the idle ones go as well, none that is at a job, and only for as long as the stop that asked for it.
func TestRunners_forgeIsStopped(t *testing.T) {
	p := newRunnerPool(t, 2)
	codes := func() (codes []string) {
		rows, err := p.Store.Pool.Query(context.Background(), `SELECT l ->> 'code' FROM preset_status, jsonb_array_elements(ledger -> 'creates') l
			WHERE preset_id = $1 AND l ->> 'code' LIKE 'forge%' AND l -> 'args' ->> 'forge' = 'acme'
				AND l -> 'args' ->> 'cause' = 'moving'`, p.preset)
		require.NoError(t, err)
		codes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return codes
	}
	p.exec("UPDATE forge_entities SET stopped_at = now(), stopped_reason = 'moving'")
	p.exec("UPDATE presets SET instances = 5")
	p.queue(3)
	p.pass()
	require.Equal(t, 2, p.Count(t, "a", "provisioning"))
	require.Zero(t, p.going())
	require.Equal(t, []string{"forge_stopped"}, codes())

	p.exec("UPDATE forge_entities SET drain_at = stopped_at - interval '1 minute'") // of an earlier stop, that was ended by a release before
	p.pass()
	require.Zero(t, p.going())
	p.exec("UPDATE forge_entities SET drain_at = now()")
	p.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, created_at, status_at, status_since, status)
		SELECT id, incarnation, preset_id, $1, name, now(), now(), now(),
			CASE row_number() OVER (ORDER BY id) WHEN 1 THEN 'active'::forge_runner_status ELSE 'idle' END
		FROM workspaces ON CONFLICT (workspace_id, incarnation) DO UPDATE SET status = excluded.status`, p.entity)
	p.pass()
	require.Equal(t, 1, p.going(), "the other one has a job")
	require.Zero(t, p.one(`SELECT count(*) FROM intents i JOIN forge_runners r USING (workspace_id) WHERE r.status = 'active'`))
	require.Equal(t, []string{"forge_drained"}, codes())

	p.exec("UPDATE forge_entities SET stopped_at = NULL, stopped_reason = ''") // drain_at stays where a release before starts it
	p.pass()
	require.Equal(t, 8, p.one("SELECT count(*) FROM workspaces")-p.going())
	require.Empty(t, codes())
}

// P8: when jobs are over, half of the surplus goes, and the next half a minute later.
func TestRunners_surplusGoesByHalves(t *testing.T) {
	p := newRunnerPool(t, 2)
	p.queue(7)
	p.pass()
	require.Equal(t, 9, p.Count(t, "a", "provisioning"))
	p.exec("UPDATE forge_jobs SET state = 'completed', completed_at = now()")
	p.pass()
	require.Equal(t, 4, p.going(), "of 7")
	for range 3 {
		p.pass()
	}
	require.Equal(t, 4, p.going(), "nothing more within the minute")
	for _, all := range []int{6, 7, 7} {
		p.exec("UPDATE preset_status SET shrunk_at = shrunk_at - interval '1 minute'")
		p.pass()
		p.pass()
		require.Equal(t, all, p.going())
	}

	p.queue(1) // what stays is used again, and nothing that has no need goes
	p.pass()
	require.Equal(t, 10, p.Count(t, "a", "provisioning"))
}

// P7: who has a job by the forge's word does not go, and nobody goes in its place; S4: the preset's own maximum holds over
// all that is live, and makes nothing go.
func TestRunners_busyAndMaximum(t *testing.T) {
	p := newRunnerPool(t, 3)
	p.exec(`UPDATE workspaces SET state = 'ready', ready_at = now()`)
	oldest := "(SELECT id FROM workspaces WHERE state = 'ready' ORDER BY created_at, id LIMIT 1)"
	p.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since, created_at)
		SELECT id, incarnation, preset_id, $1, name, 'active', now(), now(), now() FROM workspaces WHERE id = `+oldest, p.entity)
	p.exec("UPDATE presets SET instances = 2")
	p.pass()
	require.Zero(t, p.going(), "3 there, 2 wanted, but one of them is at a job")
	p.exec("UPDATE presets SET instances = 1")
	p.pass()
	require.Equal(t, 1, p.going())
	require.Zero(t, p.one("SELECT count(*) FROM intents i JOIN forge_runners r ON r.workspace_id = i.workspace_id"))

	// The same by the word of the job alone: the listing is not made at each job, and this one is idle in the last.
	p.exec("DELETE FROM intents")
	p.exec("UPDATE preset_status SET shrunk_at = NULL")
	p.exec("UPDATE forge_runners SET status = 'idle'")
	p.queue(1)
	p.exec(`UPDATE forge_jobs SET state = 'in_progress', workspace_id = r.workspace_id, incarnation = r.incarnation
		FROM forge_runners r WHERE forge_jobs.preset_id IS NOT NULL`)
	p.pass()
	require.Equal(t, 1, p.going())
	require.Zero(t, p.one("SELECT count(*) FROM intents i JOIN forge_runners r ON r.workspace_id = i.workspace_id"))

	// Its claim catches up: one is busy, one idle, one goes; the maximum leaves room for one more.
	p.exec(`WITH moved AS (
			UPDATE workspaces SET state = 'claimed', claim_id = gen_random_uuid(), owner_id = $1, claimed_at = now()
			WHERE id = (SELECT workspace_id FROM forge_runners) RETURNING *
		), history AS (
			INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)
			SELECT id, incarnation, 'ready', 'claimed', now(), $1, 'test' FROM moved
		)
		INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation, created_at, bound_at)
		SELECT claim_id, organization_id, preset_id, $1, 'require', 'bound', 'hit', id, incarnation, now(), now() FROM moved`, p.Owner)
	p.exec("UPDATE presets SET runner_maximum = 4")
	p.queue(9)
	p.pass()
	require.Equal(t, 1, p.Count(t, "a", "provisioning"))
	p.exec("UPDATE presets SET runner_maximum = 2")
	p.pass()
	require.Equal(t, 1, p.Count(t, "a", "provisioning"))
	require.Equal(t, 1, p.going(), "a lower maximum makes nothing go")
	require.Equal(t, 1, p.one(`SELECT count(*) FROM preset_status, jsonb_array_elements(ledger -> 'creates') l
		WHERE l ->> 'reason' = 'runner maximum 2 of the preset, 1 busy'`))
}

// S4: a quarantined runner keeps its place under the preset's own maximum until it is known to be gone. Full passes and those of
// nudges agree.
func TestRunners_goneTakesNoPlace(t *testing.T) {
	t.Parallel()
	p := newRunnerPool(t, 3)
	p.exec("UPDATE presets SET runner_maximum = 3")
	p.exec("UPDATE workspaces SET state = 'ready', ready_at = now()")
	held := func() int {
		return p.one("SELECT count(*) FROM preset_status, jsonb_array_elements(ledger -> 'creates') l WHERE l ->> 'code' = 'runner_maximum'")
	}
	for name, pass := range map[string]func(){
		"full":  p.pass,
		"nudge": func() { p.replica.Reconciler.Nudge(p.template()) },
	} {
		p.exec(`UPDATE workspaces SET state = 'quarantined' WHERE id = (SELECT id FROM workspaces WHERE state = 'ready' LIMIT 1)`)
		pass()
		coderdtest.Eventually(t, name+": one is held back", func() bool { return held() == 1 })
		require.Zero(t, p.Count(t, "a", "provisioning"), name)
		p.exec("UPDATE workspaces SET gone_at = now() WHERE state = 'quarantined'")
		pass()
		coderdtest.Eventually(t, name+": one is made in its place", func() bool { return p.Count(t, "a", "provisioning") == 1 })
		require.Zero(t, held(), name)
		p.exec("UPDATE workspaces SET state = 'ready', ready_at = now() WHERE state = 'provisioning'")
	}
}
