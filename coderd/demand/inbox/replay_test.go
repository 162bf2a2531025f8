package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// memory is a forge that knows what all of its deliveries say, and, where it keeps them, the deliveries.
type memory struct {
	forge.Forge // what is not asked here
	kind        forge.Kind
	all         []delivery
	keeps       bool
	lost        map[int64]bool // jobs that it does not know any more
	asked       int
	failing     error
}

func (m *memory) Rate() forge.Rate { return forge.Rate{} }

func (m *memory) Deliveries(_ context.Context, _ int64, since time.Time) (sent []forge.Sent, err error) {
	if !m.keeps {
		return nil, forge.ErrUnsupported
	}
	for i, d := range m.all {
		sent = append(sent, forge.Sent{
			ID: int64(i), GUID: d.id(), Event: d.header.Get("X-GitHub-Event"), At: since.Add(time.Duration(i) * time.Second),
		})
	}
	slices.Reverse(sent)
	return sent, m.failing
}

func (m *memory) DeliveryBody(_ context.Context, _, id int64) ([]byte, error) {
	return m.all[id].body, nil
}

// latest are the last attempts, as they are at the end.
func (m *memory) latest() map[int64]forge.Job {
	jobs := map[int64]forge.Job{}
	for _, d := range m.all {
		if j, err := m.kind.Job("workflow_job", d.body); err == nil && j != nil && j.ID != 0 && !m.lost[j.ID] {
			jobs[j.ID] = *j
		}
	}
	return jobs
}

func (m *memory) Job(_ context.Context, _ string, id int64) (forge.Job, error) {
	m.asked++
	j, known := m.latest()[id]
	if !known {
		return j, forge.ErrNotFound
	}
	return j, m.failing
}

func (m *memory) OpenJobs(_ context.Context, repositories []string) (open []forge.Job, err error) {
	for _, j := range m.latest() {
		if (j.State == forge.Queued || j.State == forge.InProgress) && slices.Contains(repositories, j.Repository) {
			open = append(open, j)
		}
	}
	return open, m.failing
}

// replay sends deliveries to two replicas, which handle the inbox at the same time, now and then.
func replay(t *testing.T, replicas []*Service, list []delivery, r *rand.Rand) {
	t.Helper()
	drain := func() {
		var all sync.WaitGroup
		for _, s := range replicas {
			all.Go(func() { assert.NoError(t, s.Drain(t.Context())) })
		}
		all.Wait()
	}
	for _, d := range list {
		_, err := replicas[r.IntN(len(replicas))].Accept(t.Context(), d.entity, d.header, d.body)
		require.NoError(t, err)
		if r.IntN(20) == 0 {
			drain()
		}
	}
	drain()
}

// mixed shuffles deliveries and repeats some of them, under their own id and under another one.
func mixed(list []delivery, r *rand.Rand) []delivery {
	out := slices.Clone(list)
	for _, d := range list {
		switch r.IntN(4) {
		case 0:
			out = append(out, d)
		case 1:
			again := d
			again.header = d.header.Clone()
			for _, name := range []string{"X-GitHub-Delivery", "X-Gitea-Delivery"} {
				if again.header.Get(name) != "" {
					again.header.Set(name, fmt.Sprintf("again-%d", r.Int()))
				}
			}
			out = append(out, again)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Recorded deliveries in 200 orders, repeated and cut short: the same rows at the end, for GitHub whose deliveries can be
// fetched. Of Gitea only jobs can be asked after: cut short, the same jobs are open at the end.
func TestReplay(t *testing.T) {
	t.Parallel()
	const orders = 200
	w := newWorld(t)
	hub, tea := recorded(t, "acme", "github.json"), recorded(t, "tea", "gitea.json")
	w.directory.forges[w.acme.ID] = &memory{kind: w.acme.Kind, all: hub, keeps: true}
	w.directory.forges[w.tea.ID] = &memory{kind: w.tea.Kind, all: tea}
	replicas := []*Service{w.service("a"), w.service("b")}

	reset := func() { w.exec("TRUNCATE forge_deliveries, forge_jobs, forge_status") }
	replay(t, replicas, slices.Concat(hub, tea), rand.New(rand.NewPCG(0, 0)))
	want, open := timed(w.jobs("true")), timed(w.jobs("j.state <> 'completed'"))
	requireEnd(t, want)

	for seed := range uint64(orders) {
		r := rand.New(rand.NewPCG(seed+1, 0))
		reset()
		list := mixed(slices.Concat(hub, tea), r)
		cut := r.IntN(2) == 0
		if cut {
			list = list[:r.IntN(len(list))]
		}
		replay(t, replicas, list, r)
		if !cut {
			require.Equal(t, want, timed(w.jobs("true")), "seed %d", seed)
			continue
		}
		for range 2 { // what the deliveries tell is known to the second round
			w.exec("UPDATE forge_jobs SET seen_at = seen_at - interval '3 minutes', asked_at = asked_at - interval '3 minutes'")
			for _, e := range []Entity{w.acme, w.tea} {
				require.NoError(t, replicas[0].Missed(t.Context(), e.ID))
			}
			require.NoError(t, replicas[1].Drain(t.Context()))
		}
		require.Equal(t, hubOf(want), hubOf(timed(w.jobs("true"))), "seed %d", seed)
		// No listing has what only waits, and it is no demand.
		require.Equal(t, withoutWaiting(open), withoutWaiting(timed(w.jobs("j.state <> 'completed'"))), "seed %d", seed)
	}
}

// timed is without the time from which a job of Gitea waits that is run again: when it was first heard of, as Gitea 1.26 says
// when the first attempt did.
func timed(jobs []job) []job {
	for i, j := range jobs {
		if j.Entity == "tea" && j.Attempt > 1 {
			jobs[i].QueuedAt = time.Time{}
		}
	}
	return jobs
}

func hubOf(jobs []job) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.Entity != "acme" })
}

func withoutWaiting(jobs []job) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.State == "waiting" })
}

// requireEnd says what the recorded deliveries come to.
func requireEnd(t *testing.T, jobs []job) {
	t.Helper()
	var got []string
	for _, j := range jobs {
		line := fmt.Sprintf("%s %d/%d %s", j.Entity, j.JobID, j.Attempt, j.State)
		for _, s := range []string{j.Conclusion, j.Preset, j.RunnerName, j.Unserved} {
			if s != "" {
				line += ", " + s
			}
		}
		if ours := j.Workspace.Valid; ours {
			line += ", ours"
		}
		got = append(got, line)
	}
	require.Equal(t, []string{
		"acme 61001/1 completed, success, t1, prebuild-aaaa, ours",
		"acme 61002/1 completed, cancelled",
		"acme 61003/1 completed, failure, t1, prebuild-cccc, ours",
		"acme 61004/1 completed, success, t2, prebuild-bbbb, ours",
		"acme 61005/1 completed, success, old-box-7",
		"acme 61006/1 waiting, t1",
		"acme 61007/1 queued, t1",
		"acme 61008/1 queued, no preset has the label gpu: give it to one, or change the workflow (runs-on)",
		"acme 61009/1 in_progress, t2, prebuild-eeee, ours",
		"acme 61013/2 completed, success, t1, prebuild-dddd, ours",
		"tea 32/1 completed, cancelled",
		"tea 33/1 waiting, t3",
		"tea 34/1 queued, t3",
		"tea 35/1 queued, no preset has the label windows: give it to one, or change the workflow (runs-on)",
		"tea 61001/1 completed, failure, t3, prebuild-gggg, ours",
		"tea 61001/2 completed, success, t3, prebuild-hhhh, ours",
	}, got)
}
