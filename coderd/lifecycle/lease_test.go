package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// A probe and a delete are part of the trace of the job before them, unless they have one of their own or traces are off. What
// else is done with a workspace is not.
func TestLeaseJobs_trace(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 1})
	trace := func(s string) *string { return &s }
	const insert = `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, due_at, created_at, finished_at, traceparent)
		SELECT $1, id, incarnation, $2, 'sim', $3, now(), now() - $4 * interval '1 minute',
		       CASE WHEN $3::job_state = 'done' THEN now() END, $5 FROM workspaces`
	for _, c := range []struct {
		kind   database.JobKind
		traced bool
		own    *string
		want   *string
	}{
		{database.JobKindProbe, true, nil, trace("the last")},
		{database.JobKindDelete, true, nil, trace("the last")},
		{database.JobKindProbe, true, trace("its own"), trace("its own")},
		{database.JobKindProbe, false, nil, nil},
		{database.JobKindProbe, false, trace("its own"), trace("its own")},
		{database.JobKindCreate, true, nil, nil},
		{database.JobKindDrain, true, nil, nil},
		{database.JobKindStart, true, nil, nil},
	} {
		_, err := store.Pool.Exec(t.Context(), "DELETE FROM jobs")
		require.NoError(t, err)
		for _, j := range []struct {
			kind    database.JobKind
			state   database.JobState
			minutes int
			trace   *string
		}{
			{database.JobKindCreate, database.JobStateDone, 3, trace("the first")},
			{database.JobKindDrain, database.JobStateDone, 2, trace("the last")},
			{c.kind, database.JobStatePending, 1, c.own},
		} {
			_, err := store.Pool.Exec(t.Context(), insert, uuid.New(), j.kind, j.state, j.minutes, j.trace)
			require.NoError(t, err)
		}
		jobs, err := lifecycledb.New(store).LeaseJobs(t.Context(), lifecycledb.LeaseJobsParams{
			Replica: "a", LeaseS: time.Minute.Seconds(), Traced: c.traced, Kind: c.kind, Provider: "sim", MaxJobs: 10,
		})
		require.NoError(t, err)
		require.Len(t, jobs, 1)
		require.Equal(t, c.want, jobs[0].Traceparent, "%s, traced: %v", c.kind, c.traced)
	}
}

// A job of a site waits for the replicas of that site. Once they have been silent for a minute, a create and a forced delete
// go to any other site, whose own replicas are well.
func TestLeaseJobs_siteWithoutReplicas(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 1})
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	dbtest.SetNow(t, store, now)
	heard := func(replica, site string, ago time.Duration) {
		t.Helper()
		_, err := store.Pool.Exec(t.Context(), `INSERT INTO replicas (name, instance_id, version, address, sites, started_at, heartbeat_at)
			VALUES ($1, gen_random_uuid(), '', '', $2, $3, $3)
			ON CONFLICT (name) DO UPDATE SET heartbeat_at = $3`, replica, []string{"elsewhere", site}, now.Add(-ago))
		require.NoError(t, err)
	}
	heard("a", "here", 0)
	for _, c := range []struct {
		kind     database.JobKind
		force    bool
		silent   time.Duration
		anywhere bool
	}{
		{database.JobKindCreate, false, 59 * time.Second, false},
		{database.JobKindCreate, false, time.Minute, true},
		{database.JobKindDelete, true, 59 * time.Second, false},
		{database.JobKindDelete, true, time.Minute, true},
		{database.JobKindDelete, false, time.Minute, false},
		{database.JobKindProbe, false, time.Minute, false},
	} {
		heard("b", "there", c.silent)
		_, err := store.Pool.Exec(t.Context(), "DELETE FROM jobs")
		require.NoError(t, err)
		_, err = store.Pool.Exec(t.Context(), `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, force, due_at, created_at)
			SELECT gen_random_uuid(), id, incarnation, $1, 'sim', 'there', $2, $3, $3 FROM workspaces`, c.kind, c.force, now)
		require.NoError(t, err)
		lease := func(site string) (sites []string) {
			t.Helper()
			jobs, err := lifecycledb.New(store).LeaseJobs(t.Context(), lifecycledb.LeaseJobsParams{
				Replica: "a", LeaseS: time.Minute.Seconds(), OwnSite: site, Kind: c.kind, Provider: "sim", MaxJobs: 10,
			})
			require.NoError(t, err)
			for _, j := range jobs {
				sites = append(sites, j.Site)
			}
			return sites
		}
		switch got := lease("here"); {
		case !c.anywhere:
			require.Empty(t, got, "%+v", c)
			require.Equal(t, []string{"there"}, lease("there"), "%+v", c)
		case c.kind == database.JobKindCreate: // it is made here, so it is of this site from now on
			require.Equal(t, []string{"here"}, got, "%+v", c)
		default:
			require.Equal(t, []string{"there"}, got, "%+v", c)
		}
	}
}

// An open breaker holds up what makes, changes or deletes resources at its provider and site, and nothing elsewhere. One that
// calls have opened holds up no delete, and no breaker holds up a start, a forced delete or what asks for nothing.
func TestLeaseJobs_breaker(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 1})
	type breaker struct {
		provider, site string
		open, byCalls  bool
	}
	listing := breaker{"sim", "here", true, false}
	calls := breaker{"sim", "here", true, true}
	for _, c := range []struct {
		breaker
		kind   database.JobKind
		force  bool
		leased bool
	}{
		{listing, database.JobKindCreate, false, false},
		{listing, database.JobKindReset, false, false},
		{listing, database.JobKindStop, false, false},
		{listing, database.JobKindDelete, false, false},
		{listing, database.JobKindDelete, true, true},
		{listing, database.JobKindStart, false, true},
		{listing, database.JobKindProbe, false, true},
		{listing, database.JobKindDrain, false, true},
		{calls, database.JobKindCreate, false, false},
		{calls, database.JobKindDelete, false, true},
		{breaker{"sim", "here", false, false}, database.JobKindCreate, false, true},
		{breaker{"sim", "here", false, false}, database.JobKindDelete, false, true},
		{breaker{"sim", "there", true, false}, database.JobKindCreate, false, true},
		{breaker{"other", "here", true, false}, database.JobKindDelete, false, true},
	} {
		for _, sql := range []string{"DELETE FROM jobs", "DELETE FROM inventories"} {
			_, err := store.Pool.Exec(t.Context(), sql)
			require.NoError(t, err)
		}
		_, err := store.Pool.Exec(t.Context(), `INSERT INTO inventories (provider, site, leased_until, due_at, full_at, opened_at, reason, by_calls)
			VALUES ($1, $2, now(), now(), now(), CASE WHEN $3::boolean THEN now() END, CASE WHEN $3 THEN 'no answer' ELSE '' END, $4)`,
			c.provider, c.site, c.open, c.byCalls)
		require.NoError(t, err)
		_, err = store.Pool.Exec(t.Context(), `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, site, force, due_at, created_at)
			SELECT gen_random_uuid(), id, incarnation, $1, 'sim', 'here', $2, now(), now() FROM workspaces`, c.kind, c.force)
		require.NoError(t, err)
		jobs, err := lifecycledb.New(store).LeaseJobs(t.Context(), lifecycledb.LeaseJobsParams{
			Replica: "a", LeaseS: time.Minute.Seconds(), OwnSite: "here", Kind: c.kind, Provider: "sim", MaxJobs: 10,
		})
		require.NoError(t, err)
		require.Equal(t, c.leased, len(jobs) == 1, "%+v", c)
	}
}
