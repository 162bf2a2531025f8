package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// queuedJob is a signed delivery of a queued job of acme.
func queuedJob(id int, labels string) delivery {
	d := delivery{entity: "acme", header: http.Header{}, body: fmt.Appendf(nil, `{"action":"queued","workflow_job":{"id":%d,
		"run_attempt":1,"labels":[%s],"created_at":"2026-03-02T09:%02d:%02dZ"},"repository":{"full_name":"acme/shop"}}`,
		id, labels, id/60, id%60)}
	d.header.Set("X-GitHub-Event", "workflow_job")
	d.header.Set("X-GitHub-Delivery", fmt.Sprintf("d-%d", id))
	sign(d, secret)
	return d
}

func (w *world) accept(s *Service, list ...delivery) {
	w.t.Helper()
	for _, d := range list {
		_, err := s.Accept(w.t.Context(), d.entity, d.header, d.body)
		require.NoError(w.t, err)
	}
}

func (w *world) template(n int) (id uuid.UUID) {
	w.t.Helper()
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(), "SELECT id FROM templates WHERE name = 't' || $1::integer", n).Scan(&id))
	return id
}

// What a replica leased and did not handle is taken over when its lease is over, and not before; and then the first one
// changes nothing any more.
func TestDrain_aReplicaThatDied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("alive")
	w.accept(s, queuedJob(1, `"linux"`), queuedJob(2, `"linux"`))
	dead, err := inboxdb.New(w.store).LeaseDeliveries(t.Context(), inboxdb.LeaseDeliveriesParams{Replica: "dead", LeaseS: 30, MaxDeliveries: 10})
	require.NoError(t, err)
	require.Len(t, dead, 2)
	require.NoError(t, s.Drain(t.Context()))
	require.Empty(t, w.jobs("true"), "they are the other one's")

	over := func() { w.exec("UPDATE forge_deliveries SET due_at = now() - interval '1 second'") }
	late := func() {
		n, err := inboxdb.New(w.store).HandleDeliveries(t.Context(), inboxdb.HandleDeliveriesParams{
			Ids: []int64{dead[0].ID}, Attempts: []int32{dead[0].Attempts}, Outcomes: []string{"late"}, Replica: "dead",
		})
		require.NoError(t, err)
		require.Zero(t, n)
	}
	over()
	_, err = inboxdb.New(w.store).LeaseDeliveries(t.Context(), inboxdb.LeaseDeliveriesParams{Replica: "dead", LeaseS: 30, MaxDeliveries: 10})
	require.NoError(t, err)
	late() // one of that name leases it again: that is another lease
	over()
	require.NoError(t, s.Drain(t.Context()))
	require.Len(t, w.jobs("j.state = 'queued'"), 2)
	late()
	require.Equal(t, 2, w.count("SELECT count(*) FROM forge_deliveries WHERE outcome LIKE 'job %' AND handled_at IS NOT NULL"))
}

// An entity that cannot be had keeps its deliveries in the inbox, with growing pauses, and at last they are given up. What else
// is in the batch goes on, as does what can't be read or is of an entity that is gone.
func TestDrain_outcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	broken := queuedJob(1, `"linux"`)
	broken.body = []byte(`{"action":"queued","workflow_job":{"id":"x"}}`)
	sign(broken, secret)
	ping := queuedJob(2, "")
	ping.header.Set("X-GitHub-Event", "ping")
	w.accept(s, broken, ping, queuedJob(3, `"linux"`))
	w.exec(`INSERT INTO forge_deliveries (entity_id, delivery_id, event, body, received_at, due_at)
		VALUES (gen_random_uuid(), 'd-4', 'workflow_job', '{}', now(), now())`)
	require.NoError(t, s.Drain(t.Context()))
	outcome := func(id string) (text string) {
		require.NoError(t, w.store.Pool.QueryRow(t.Context(), "SELECT outcome FROM forge_deliveries WHERE delivery_id = $1 "+
			"AND handled_at IS NOT NULL", id).Scan(&text))
		return text
	}
	assert.Contains(t, outcome("d-1"), "unreadable: ")
	assert.Equal(t, "ignored: ping is of no job that waits, runs or ended", outcome("d-2"))
	assert.Equal(t, "job 3, attempt 1: queued", outcome("d-3"))
	assert.Equal(t, "ignored: the entity is deleted", outcome("d-4"))

	w.accept(s, queuedJob(5, `"linux"`))
	w.directory.err = errors.New("its key is missing")
	for try := 1; try <= mostTries; try++ {
		var before time.Time
		require.NoError(t, w.store.Pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&before))
		_, err := s.handleBatch(t.Context()) // Drain might take longer than the first pauses, and try again
		require.NoError(t, err)
		require.Equal(t, try, w.count("SELECT attempts FROM forge_deliveries WHERE delivery_id = 'd-5'"))
		var most, least float64 // that the pause can be: it began between the two readings of the clock
		require.NoError(t, w.store.Pool.QueryRow(t.Context(), `SELECT extract(epoch FROM due_at - $1),
			extract(epoch FROM due_at - now()) FROM forge_deliveries WHERE delivery_id = 'd-5'`, before).Scan(&most, &least))
		if try < mostTries {
			pause := min(retryFirst.Seconds()*math.Pow(2, float64(try-1)), retryMost.Seconds())
			require.GreaterOrEqual(t, most, pause)
			require.LessOrEqual(t, least, pause)
			require.Equal(t, 1, w.count(`SELECT count(*) FROM forge_deliveries WHERE delivery_id = 'd-5' AND handled_at IS NULL
				AND leased_by = '' AND outcome = 'find entity: its key is missing'`), "an operator sees why it waits")
		}
		w.exec("UPDATE forge_deliveries SET due_at = now() - interval '1 second'")
	}
	assert.Equal(t, "given up after 20 tries: find entity: its key is missing", outcome("d-5"))
	w.directory.err = nil
	require.NoError(t, s.Drain(t.Context()))
	require.Len(t, w.jobs("true"), 1, "what was given up is")
}

// A job that can't be stored does not keep the others of its batch.
func TestDrain_oneThatCannotBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.exec("ALTER TABLE forge_jobs ADD CHECK (job_id <> 2)")
	w.accept(s, queuedJob(1, `"linux"`), queuedJob(2, `"linux"`), queuedJob(3, `"linux"`))
	require.NoError(t, s.Drain(t.Context()))
	require.Len(t, w.jobs("true"), 2)
	require.Equal(t, 1, w.count(`SELECT count(*) FROM forge_deliveries WHERE handled_at IS NULL AND attempts > 0
		AND due_at >= received_at + interval '1 second'`), "it is tried again later")
}

// Templates are nudged when their demand grows and when it shrinks, and claims are settled after every event of a job.
func TestDrain_nudges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.accept(s, queuedJob(1, `"linux"`))
	require.NoError(t, s.Drain(t.Context()))
	require.Equal(t, map[uuid.UUID]int{w.template(1): 1}, w.nudged)
	require.Equal(t, 1, w.settled)

	done := queuedJob(1, `"linux"`)
	done.body = []byte(`{"action":"in_progress","workflow_job":{"id":1,"run_attempt":1,"runner_id":5,"runner_name":"prebuild-aaaa"},
		"repository":{"full_name":"acme/shop"}}`)
	done.header.Set("X-GitHub-Delivery", "d-1-2")
	sign(done, secret)
	w.accept(s, done)
	require.NoError(t, s.Drain(t.Context()))
	require.Equal(t, 2, w.nudged[w.template(1)])
	require.Equal(t, 2, w.settled)

	require.NoError(t, s.Match(t.Context()))
	require.Equal(t, 2, w.nudged[w.template(1)], "nothing has changed")
}

// Matching follows presets and entities: it is a function of what the rows say now.
func TestMatch_followsRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.exec("UPDATE presets SET runner_maximum = 1 WHERE forge_entity_id IS NOT NULL")
	w.accept(s, queuedJob(1, `"linux"`), queuedJob(2, `"linux"`), queuedJob(3, `"linux"`))
	require.NoError(t, s.Drain(t.Context()))
	presets := func() (list []string) {
		for _, j := range w.jobs("true") {
			list = append(list, j.Preset+j.Unserved)
		}
		return list
	}
	full := "all pools that could serve it are at their maximum: t1/default 1, t2/default 1"
	require.Equal(t, []string{"t1", "t2", full}, presets())
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{
			"room", "UPDATE presets SET runner_maximum = 5 WHERE template_id = (SELECT id FROM templates WHERE name = 't2')",
			[]string{"t1", "t2", "t2"},
		},
		{"deprecated", "UPDATE templates SET deprecated_at = now() WHERE name = 't1'", []string{"t2", "t2", "t2"}},
		{
			"other labels", "UPDATE presets SET runner_labels = '{windows}' WHERE template_id = (SELECT id FROM templates WHERE name = 't2')",
			[]string{
				"t1/default would serve it, but its template is deprecated", "t1/default would serve it, but its template is deprecated",
				"t1/default would serve it, but its template is deprecated",
			},
		},
		{"stopped", "UPDATE forge_entities SET stopped_at = now(), stopped_reason = 'tests'", []string{
			"t1/default would serve it, but the forge entity acme is stopped: tests",
			"t1/default would serve it, but the forge entity acme is stopped: tests",
			"t1/default would serve it, but the forge entity acme is stopped: tests",
		}},
		{"stopped for no reason", "UPDATE forge_entities SET stopped_reason = ''", []string{
			"t1/default would serve it, but the forge entity acme is stopped",
			"t1/default would serve it, but the forge entity acme is stopped",
			"t1/default would serve it, but the forge entity acme is stopped",
		}},
		{"deleted", "UPDATE presets SET deleted_at = now()", []string{
			"no preset has runners for acme/shop: give one a runner section with a forge entity that covers the repository",
			"no preset has runners for acme/shop: give one a runner section with a forge entity that covers the repository",
			"no preset has runners for acme/shop: give one a runner section with a forge entity that covers the repository",
		}},
	} {
		w.exec(c.sql)
		require.NoError(t, s.Match(t.Context()))
		require.Equal(t, c.want, presets(), c.name)
	}
}

// A job that the forge holds back is announced to the pool that will serve it, after all queued ones, however old it is. It is no
// demand: no pass is asked for, and that nothing can serve it yet is nothing to tell.
func TestMatch_announced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.exec("UPDATE presets SET runner_maximum = 1 WHERE forge_entity_id IS NOT NULL")
	announced := func(id int64) forge.Job {
		return forge.Job{
			ID: id, Attempt: 1, State: forge.Waiting, Repository: "acme/shop", Labels: []string{"linux"},
			QueuedAt: time.Date(2020, 1, 1, 0, 0, int(id), 0, time.UTC),
		}
	}
	w.merge(s, announced(1), announced(2))
	require.NoError(t, s.Match(t.Context()))
	presets := func() (list []string) {
		for _, j := range w.jobs("true") {
			list = append(list, j.State+" "+j.Preset+j.Unserved)
		}
		return list
	}
	require.Equal(t, []string{"waiting t1", "waiting t2"}, presets())
	require.Empty(t, w.nudged)

	w.accept(s, queuedJob(3, `"linux"`))
	require.NoError(t, s.Drain(t.Context()))
	require.NoError(t, s.Match(t.Context()))
	require.Equal(t, []string{"waiting ", "waiting t2", "queued t1"}, presets())

	second := announced(2)
	second.State = forge.Queued
	w.merge(s, second)
	require.NoError(t, s.Match(t.Context()))
	require.Equal(t, []string{"waiting ", "queued t2", "queued t1"}, presets())
	require.Equal(t, 1, w.nudged[w.template(2)], "now it is demand")
}

// A runner that registers after its job was heard of is bound by the next match.
func TestMatch_bindsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.merge(s, forge.Job{ID: 1, Attempt: 1, State: forge.InProgress, RunnerName: "prebuild-late", RunnerID: 9, Repository: "acme/shop"})
	require.NoError(t, s.Match(t.Context()))
	require.False(t, w.jobs("true")[0].Workspace.Valid)
	require.Equal(t, 1, w.settled, "by the event")
	w.runner("prebuild-late", 2)
	require.NoError(t, s.Match(t.Context()))
	got := w.jobs("true")[0]
	require.True(t, got.Workspace.Valid)
	require.Equal(t, "t2", got.Preset)
	require.Equal(t, 2, w.settled)

	w.exec("DELETE FROM forge_runners")
	w.merge(s, forge.Job{ID: 1, Attempt: 1, State: forge.Completed, RunnerName: "prebuild-late", RunnerID: 9, Conclusion: "success"})
	require.True(t, w.jobs("true")[0].Workspace.Valid, "what was found stays")
	w.merge(s, forge.Job{ID: 1, Attempt: 1, State: forge.Completed, RunnerName: "prebuild-later", RunnerID: 10})
	require.Equal(t, "prebuild-later", w.jobs("true")[0].RunnerName)
	require.False(t, w.jobs("true")[0].Workspace.Valid, "another runner is not that workspace")
}

// A runner is that of a job of its own forge: names are chosen by whoever speaks as a forge.
func TestMatch_otherForge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	ofAcme := forge.Job{ID: 1, Attempt: 1, State: forge.InProgress, RunnerName: "prebuild-aaaa", RunnerID: 9, Repository: "acme/shop"}
	tea := &round{Service: s, entity: w.tea}
	require.NoError(t, tea.learn(t.Context(), []forge.Job{ofAcme}))
	require.NoError(t, s.Match(t.Context()))
	require.False(t, w.jobs("true")[0].Workspace.Valid)
	w.merge(s, ofAcme)
	require.NoError(t, s.Match(t.Context()))
	require.True(t, w.jobs("j.forge_url = 'https://api.github.com'")[0].Workspace.Valid)
	require.False(t, w.jobs("j.forge_url = 'https://gitea.example'")[0].Workspace.Valid)
}

// Whoever knows the secret of one entity speaks for no other at the same forge: it makes no demand for the others' runners,
// ends none of their jobs, and has none of their runners claimed.
func TestDeliveries_ofAnotherEntity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	evil := w.acme
	evil.ID, evil.Name, evil.Path, evil.OrganizationID = named("entity", 3), "evil", "evil", named("organization", 3)
	w.directory.entities = append(w.directory.entities, evil)
	w.exec(`INSERT INTO organizations (id, name, created_at) VALUES ($1, 'another', now())`, evil.OrganizationID)
	w.exec(`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by,
		created_at, updated_at) VALUES ($1, $2, 'evil', 'organization', 'evil', $3, 'x', 'test', now(), now())`,
		evil.ID, evil.OrganizationID, w.acme.ID)
	w.exec("UPDATE forge_entities SET scope = 'enterprise', path = 'all' WHERE id = $1", w.tea.ID)
	w.exec("UPDATE forge_entities SET credential_id = $1 WHERE id = $2", w.acme.ID, w.tea.ID)
	s := w.service("a")
	number := 0
	send := func(repository, action, runner string, id, attempt int) (outcome string) {
		number++
		d := delivery{entity: "evil", header: http.Header{}, body: fmt.Appendf(nil, `{"action":%q,"workflow_job":{"id":%d,
			"run_attempt":%d,"labels":["linux"],"runner_name":%q,"runner_id":9,"conclusion":"success"},
			"repository":{"full_name":%q}}`, action, id, attempt, runner, repository)}
		d.header.Set("X-GitHub-Event", "workflow_job")
		d.header.Set("X-GitHub-Delivery", fmt.Sprintf("evil-%d", number))
		sign(d, secret)
		w.accept(s, d)
		require.NoError(t, s.Drain(t.Context()))
		require.NoError(t, s.Match(t.Context()))
		require.NoError(t, w.store.Pool.QueryRow(t.Context(), "SELECT outcome FROM forge_deliveries WHERE delivery_id = $1",
			d.header.Get("X-GitHub-Delivery")).Scan(&outcome))
		return outcome
	}
	waits := forge.Job{ID: 1, Attempt: 1, State: forge.Queued, Repository: "acme/shop", Labels: []string{"linux"}}
	w.merge(s, waits)
	before := w.jobs("true")

	require.Equal(t, "ignored: acme/shop is not of the organization evil; if it was renamed or moved, apply the forge with its new path",
		send("acme/shop", "queued", "", 2, 1))
	require.Equal(t, before, w.jobs("true"))
	send("evil/x", "completed", "", 1, 1) // the other's job, by its number
	send("evil/x", "queued", "", 1, 2)    // a rerun of it
	require.Equal(t, before, w.jobs("j.repository = 'acme/shop'"))
	for i, runner := range []string{"prebuild-aaaa", "prebuild-gggg"} { // of an organization, and of an enterprise
		send("evil/x", "in_progress", runner, 3+i, 1)
		send("evil/x", "completed", runner, 3+i, 1)
		send("Evil/x", "in_progress", runner, 5+i, 1)
	}
	require.Len(t, w.jobs("j.repository ILIKE 'evil/x'"), 5)
	require.Empty(t, w.jobs("j.repository ILIKE 'evil/x' AND (j.workspace_id IS NOT NULL OR j.preset_id IS NOT NULL)"))

	own := waits // the same repository by an entity of its own is one of the tellers
	own.State, own.RunnerName, own.RunnerID = forge.InProgress, "prebuild-aaaa", 9
	shop := evil
	shop.Scope, shop.Path = forge.Repository, "acme/shop"
	w.exec("UPDATE forge_entities SET scope = 'repository', path = 'acme/shop' WHERE id = $1", evil.ID)
	require.NoError(t, (&round{Service: s, entity: shop}).learn(t.Context(), []forge.Job{own}))
	require.True(t, w.jobs("j.repository = 'acme/shop'")[0].Workspace.Valid)
}

// merge is what a listing does.
func (w *world) merge(s *Service, jobs ...forge.Job) {
	w.t.Helper()
	r := &round{Service: s, entity: w.acme}
	for _, j := range jobs {
		require.NoError(w.t, r.learn(w.t.Context(), []forge.Job{j}))
	}
}

// A rerun under the same id ends what was open before it, whichever is heard of first; the forge's own word on the end wins.
func TestMerge_supersedes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	first := forge.Job{ID: 1, Attempt: 1, State: forge.InProgress, Repository: "acme/shop"}
	second := forge.Job{ID: 1, Attempt: 2, State: forge.Queued, Repository: "acme/shop", Labels: []string{"linux"}}
	failed := forge.Job{
		ID: 1, Attempt: 1, State: forge.Completed, Conclusion: "failure", Repository: "acme/shop",
		CompletedAt: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
	}
	ends := func() (list []string) {
		for _, j := range w.jobs("true") {
			list = append(list, j.State+j.Conclusion)
		}
		return list
	}
	for _, order := range [][]forge.Job{{first, second}, {second, first}, {first, second, first}} {
		w.exec("TRUNCATE forge_jobs")
		w.merge(s, order...)
		require.Equal(t, []string{"completedsuperseded", "queued"}, ends())
	}
	for _, order := range [][]forge.Job{{first, second, failed}, {failed, second, first}, {second, failed, first}} {
		w.exec("TRUNCATE forge_jobs")
		w.merge(s, order...)
		require.Equal(t, []string{"completedfailure", "queued"}, ends())
		require.Equal(t, failed.CompletedAt, *w.jobs("true")[0].CompletedAt)
	}
}

// A rerun that another pool serves frees a runner of the pool that was to serve the attempt before: both are nudged.
func TestMerge_supersedesNudges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	first := forge.Job{ID: 1, Attempt: 1, State: forge.Queued, Repository: "acme/shop", Labels: []string{"linux"}}
	w.merge(s, first)
	require.Equal(t, map[uuid.UUID]int{w.template(1): 1}, w.nudged)
	second := first
	second.Attempt, second.Labels = 2, []string{"linux", "large"}
	w.merge(s, second)
	require.Equal(t, map[uuid.UUID]int{w.template(1): 2, w.template(2): 1}, w.nudged)
}

// A job that comes by a repository and by its enterprise is one, and the enterprise's, in either order.
func TestMerge_twoEntities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	other := w.acme
	other.ID = w.tea.ID
	for _, enterprise := range []string{"acme", "tea"} {
		w.exec("UPDATE forge_entities SET scope = CASE name WHEN $1 THEN 'enterprise' ELSE 'organization' END::forge_scope", enterprise)
		for _, order := range [][]Entity{{w.acme, other}, {other, w.acme}} {
			w.exec("TRUNCATE forge_jobs")
			for _, e := range order {
				r := &round{Service: s, entity: e}
				require.NoError(t, r.learn(t.Context(), []forge.Job{
					{ID: 1, Attempt: 1, State: forge.Queued, Repository: "acme/shop", Labels: []string{"linux"}},
				}))
			}
			got := w.jobs("true")
			require.Len(t, got, 1)
			require.Equal(t, enterprise, got[0].Entity)
		}
	}
}

// Whatever text a forge sends can be stored.
func TestMerge_anyText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.merge(w.service("a"), clean(forge.Job{
		ID: 1, Attempt: -4, State: forge.Queued, Repository: "acme/\x00shop\xff", Name: "a\nb\x1f", Labels: []string{"LI\x1fNUX", " ", "x"},
	}))
	got := w.jobs("true")[0]
	require.Equal(t, 1, got.Attempt)
	require.Equal(t, "acme/ shop\uFFFD", got.Repository)
	require.Equal(t, []string{"li nux", "x"}, got.Labels)
}
