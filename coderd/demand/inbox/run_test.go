package inbox

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// A burst of 500 jobs at two replicas that run as they do in a server: all become demand, each once, and every webhook is
// answered in well under 100 ms.
func TestRun_burst(t *testing.T) {
	t.Parallel()
	const jobs = 500
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	replicas := []*Service{w.service("a"), w.service("b")}
	ended := make(chan struct{}, len(replicas))
	for _, s := range replicas {
		go func() { s.Run(ctx); ended <- struct{}{} }()
	}
	took := make([]time.Duration, jobs)
	for i := range jobs {
		d := queuedJob(i+1, `"linux"`)
		start := time.Now()
		w.accept(replicas[i%2], d)
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	t.Logf("answered in %s at the median, %s at p99", took[jobs/2], took[jobs*99/100])
	require.Eventually(t, func() bool {
		return w.count("SELECT count(*) FROM forge_jobs WHERE state = 'queued' AND preset_id IS NOT NULL") == jobs
	}, time.Minute, 10*time.Millisecond)
	require.Zero(t, w.count("SELECT count(*) FROM forge_deliveries WHERE handled_at IS NULL OR attempts <> 1"))
	cancel()
	for range replicas {
		<-ended
	}
}

// A whole match at the size that is worst: all queued jobs, all presets, from rows to rows.
func TestMatch_many(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.exec(`INSERT INTO presets (id, organization_id, template_id, name, pool_key, created_at, updated_at, forge_entity_id,
		runner_labels, runner_maximum, priority)
		SELECT gen_random_uuid(), organization_id, template_id, 'p' || n, gen_random_uuid(), now(), now(), forge_entity_id,
		ARRAY['linux', 'size-' || n % 50], 20, n % 3 FROM presets, generate_series(1, 500) n WHERE forge_entity_id = $1
		AND template_id = (SELECT id FROM templates WHERE name = 't1')`, w.acme.ID)
	w.exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state,
		queued_at, seen_at, updated_at)
		SELECT gen_random_uuid(), $1, $2, n, 1, $3, 'acme/r' || n % 500, ARRAY['linux', 'size-' || n % 50], 'queued',
		now(), now(), now() FROM generate_series(1, 5000) n`, defaultOrganization, w.acme.ForgeURL, w.acme.ID)
	for _, what := range []string{"all are new", "nothing is"} {
		start := time.Now()
		require.NoError(t, s.Match(t.Context()))
		t.Logf("matched 5,000 jobs and 500 presets in %s, where %s", time.Since(start), what)
	}
	require.Equal(t, 5000, w.count("SELECT count(*) FROM forge_jobs WHERE preset_id IS NOT NULL"))
	require.Zero(t, w.count(`SELECT count(*) FROM (SELECT preset_id FROM forge_jobs GROUP BY 1 HAVING count(*) > 20) x`))
}

// What another replica took and lost is found without anybody saying so, as is what a change of presets makes of jobs.
func TestRun_byItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.accept(w.service("gone"), queuedJob(1, `"linux"`))
	clock := quartz.NewMock(t)
	s.Clock = clock
	begun := clock.Trap().NewTicker("inbox", "match")
	defer begun.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	begun.MustWait(t.Context()).MustRelease(t.Context())
	until := func(jobs int) {
		require.Eventually(t, func() bool {
			clock.AdvanceNext() // whichever of its timers is the next
			return len(w.jobs("j.preset_id IS NOT NULL")) == jobs
		}, time.Minute, time.Millisecond)
	}
	until(1)
	w.merge(s, forge.Job{ID: 2, State: forge.Queued, Repository: "acme/shop", Labels: []string{"windows"}})
	w.preset(2, w.acme, 0, "windows")
	until(2)
	cancel()
	<-ended
}

// One match at a time, and who waits for another's gives up with its context, as a replica does that stops.
func TestMatch_waitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	s.matching <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Match(ctx), context.Canceled)
	<-s.matching
	require.NoError(t, s.Match(t.Context()))
}
