package inbox

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

const testForge = "https://forge.example"

// named is an id that says what it is of.
func named(kind string, n int) uuid.UUID {
	return uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s %d", kind, n))
}

func aPool(name string, priority, maximum int, labels ...string) pool {
	return pool{
		id: uuid.NewSHA1(uuid.Nil, []byte(name)), name: name, priority: priority, maximum: maximum,
		labels: forge.Labels(labels), entity: named("entity", 1), scope: forge.Organization, path: "Acme", forgeURL: testForge,
	}
}

func aJob(n int, labels ...string) queued {
	return queued{
		id: named("job", n), entity: named("entity", 1), forgeURL: testForge, repository: "acme/shop",
		labels: forge.Labels(labels), queuedAt: time.Unix(int64(n), 0),
	}
}

// said reads an assignment like a sentence.
func said(assigned []assignment, pools []pool) (out []string) {
	for _, a := range assigned {
		i := slices.IndexFunc(pools, func(p pool) bool { return p.id == a.preset })
		if i < 0 {
			out = append(out, a.unserved)
			continue
		}
		out = append(out, pools[i].name)
	}
	return out
}

func TestMatch(t *testing.T) {
	t.Parallel()
	with := func(p pool, change func(p *pool)) pool { change(&p); return p }
	had := func(j queued, p pool) queued { j.preset = p.id; return j }
	for _, c := range []struct {
		name   string
		pools  []pool
		jobs   []queued
		spread bool
		want   []string
	}{
		{
			"case and duplicates make no difference",
			[]pool{aPool("t/a", 0, 0, "Linux", "X64")},
			[]queued{aJob(1, "LINUX", "linux")},
			false,
			[]string{"t/a"},
		},
		{
			"priority first, then the name",
			[]pool{aPool("t/a", 0, 0, "x"), aPool("t/c", 5, 1, "x"), aPool("t/b", 5, 1, "x")},
			[]queued{aJob(1, "x"), aJob(2, "x"), aJob(3, "x")},
			false,
			[]string{"t/b", "t/c", "t/a"},
		},
		{
			"pack fills one after the other",
			[]pool{aPool("t/a", 0, 2, "x"), aPool("t/b", 0, 2, "x")},
			[]queued{aJob(1, "x"), aJob(2, "x"), aJob(3, "x")},
			false,
			[]string{"t/a", "t/a", "t/b"},
		},
		{
			"spread takes the emptiest by share",
			[]pool{aPool("t/a", 0, 2, "x"), aPool("t/b", 0, 4, "x")},
			[]queued{aJob(1, "x"), aJob(2, "x"), aJob(3, "x"), aJob(4, "x")},
			true,
			[]string{"t/a", "t/b", "t/b", "t/a"},
		},
		{
			"spread by number where one has no maximum",
			[]pool{aPool("t/a", 0, 2, "x"), aPool("t/b", 0, 0, "x")},
			[]queued{aJob(1, "x"), aJob(2, "x"), aJob(3, "x")},
			true,
			[]string{"t/a", "t/b", "t/a"},
		},
		{
			"busy runners take room",
			[]pool{with(aPool("t/a", 0, 2, "x"), func(p *pool) { p.busy = 1 })},
			[]queued{aJob(1, "x"), aJob(2, "x")},
			false,
			[]string{"t/a", "all pools that could serve it are at their maximum: t/a 2"},
		},
		{
			"a job keeps its pool, even if another has room now",
			[]pool{aPool("t/a", 9, 0, "x"), aPool("t/b", 0, 0, "x")},
			[]queued{had(aJob(1, "x"), aPool("t/b", 0, 0, "x"))},
			false,
			[]string{"t/b"},
		},
		{
			"unless that is too small for all: the latest go",
			[]pool{aPool("t/a", 0, 1, "x"), aPool("t/b", 0, 0, "x")},
			[]queued{had(aJob(1, "x"), aPool("t/a", 0, 0)), had(aJob(2, "x"), aPool("t/a", 0, 0))},
			false,
			[]string{"t/a", "t/b"},
		},
		{
			"or does not serve it any more",
			[]pool{aPool("t/a", 0, 1, "y"), aPool("t/b", 0, 0, "x")},
			[]queued{had(aJob(1, "x"), aPool("t/a", 0, 0))},
			false,
			[]string{"t/b"},
		},
		{
			"a label that none has",
			[]pool{aPool("t/a", 0, 0, "linux")},
			[]queued{aJob(1, "linux", "gpu")},
			false,
			[]string{"no preset has the label gpu: give it to one, or change the workflow (runs-on)"},
		},
		{
			"labels that none has together",
			[]pool{aPool("t/a", 0, 0, "linux"), aPool("t/b", 0, 0, "gpu")},
			[]queued{aJob(1, "linux", "gpu")},
			false,
			[]string{"no preset has all of its labels together: gpu, linux"},
		},
		{
			"no label",
			[]pool{aPool("t/a", 0, 0, "linux")},
			[]queued{aJob(1)},
			false,
			[]string{"it asks for no label, so it is for no runner of Prewarm: give it one in its workflow (runs-on)"},
		},
		{
			"a stopped entity",
			[]pool{with(aPool("t/a", 0, 0, "x"), func(p *pool) { p.off = "the forge entity acme is stopped: tests" })},
			[]queued{aJob(1, "x")},
			false,
			[]string{"t/a would serve it, but the forge entity acme is stopped: tests"},
		},
		{"another repository", []pool{with(aPool("t/a", 0, 0, "x"), func(p *pool) {
			p.entity, p.scope, p.path = named("entity", 2), forge.Repository, "acme/bank"
		})}, []queued{aJob(1, "x")}, false, []string{
			"no preset has runners for acme/shop: give one a runner section with a forge entity that covers the repository",
		}},
		{"another entity that covers it", []pool{with(aPool("t/a", 0, 0, "x"), func(p *pool) {
			p.entity, p.scope, p.path = named("entity", 2), forge.Repository, "ACME/Shop"
		})}, []queued{aJob(1, "x")}, false, []string{"t/a"}},
		{"an enterprise by which it did not come", []pool{with(aPool("t/a", 0, 0, "x"), func(p *pool) {
			p.entity, p.scope, p.path = named("entity", 2), forge.Enterprise, "acme"
		})}, []queued{aJob(1, "x")}, false, []string{
			"no preset has runners for acme/shop: give one a runner section with a forge entity that covers the repository",
		}},
		{"another forge, another organization", []pool{
			with(aPool("t/a", 0, 0, "x"), func(p *pool) { p.forgeURL = "https://other.example" }),
			with(aPool("t/b", 0, 0, "x"), func(p *pool) { p.organization = named("organization", 2) }),
		}, []queued{aJob(1, "x")}, false, []string{
			"no preset has runners for acme/shop: give one a runner section with a forge entity that covers the repository",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := match(c.jobs, c.pools, map[uuid.UUID]bool{named("entity", 1): c.spread})
			assert.Equal(t, c.want, said(got, c.pools))
		})
	}
}

var someLabels = []string{"linux", "arm", "gpu", "large"}

func drawPools(t *rapid.T) []pool {
	pools := make([]pool, rapid.IntRange(0, 6).Draw(t, "pools"))
	for i := range pools {
		p := aPool(fmt.Sprintf("t/p%d", i), rapid.IntRange(0, 2).Draw(t, "priority"), rapid.IntRange(0, 4).Draw(t, "maximum"),
			rapid.SliceOfN(rapid.SampledFrom(someLabels), 1, 4).Draw(t, "labels")...)
		p.busy = rapid.IntRange(0, 5).Draw(t, "busy")
		p.entity = named("entity", rapid.IntRange(1, 2).Draw(t, "entity"))
		p.scope = rapid.SampledFrom([]forge.Scope{forge.Repository, forge.Organization, forge.Enterprise}).Draw(t, "scope")
		p.path = map[forge.Scope]string{forge.Repository: "acme/shop", forge.Organization: "acme", forge.Enterprise: "all"}[p.scope]
		if rapid.IntRange(0, 5).Draw(t, "off") == 0 {
			p.off = "it is off"
		}
		pools[i] = p
	}
	return pools
}

func drawJobs(t *rapid.T, pools []pool) []queued {
	jobs := make([]queued, rapid.IntRange(0, 20).Draw(t, "jobs"))
	for i := range jobs {
		j := aJob(i, rapid.SliceOfN(rapid.SampledFrom(someLabels), 0, 3).Draw(t, "labels")...)
		j.entity = named("entity", rapid.IntRange(1, 2).Draw(t, "entity"))
		j.repository = rapid.SampledFrom([]string{"acme/shop", "acme/bank", "other/shop"}).Draw(t, "repository")
		j.queuedAt = time.Unix(rapid.Int64Range(0, 5).Draw(t, "queued at"), 0)
		if len(pools) > 0 && rapid.Bool().Draw(t, "had one") {
			j.preset = pools[rapid.IntRange(0, len(pools)-1).Draw(t, "which")].id
		}
		jobs[i] = j
	}
	return jobs
}

// What holds of every match, whatever the jobs and pools.
func TestMatch_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t)
		jobs := drawJobs(t, pools)
		spread := map[uuid.UUID]bool{named("entity", 1): rapid.Bool().Draw(t, "spread")}
		got := match(jobs, pools, spread)

		require.Len(t, got, len(jobs), "each job is answered once")
		of := map[uuid.UUID]queued{}
		for _, j := range jobs {
			of[j.id] = j
		}
		byID, assigned := map[uuid.UUID]pool{}, map[uuid.UUID]int{}
		for _, p := range pools {
			byID[p.id] = p
		}
		for _, a := range got {
			assigned[a.preset]++
		}
		room := func(p pool) bool { return p.maximum == 0 || p.busy+assigned[p.id] < p.maximum }
		serves := func(p pool, j queued) bool {
			return p.off == "" && p.covers(&j) && forge.Serves(p.labels, j.labels)
		}
		for _, p := range pools {
			if n := assigned[p.id]; p.maximum > 0 && n > 0 {
				require.LessOrEqual(t, p.busy+n, p.maximum, "no pool beyond its maximum")
			}
		}
		for _, a := range got {
			j, known := of[a.job]
			require.True(t, known)
			delete(of, a.job)
			require.NotEqual(t, a.preset == uuid.Nil, a.unserved == "", "a pool, or a reason")
			p, has := byID[a.preset]
			if has {
				require.True(t, serves(p, j))
			}
			for _, other := range pools {
				if serves(other, j) && room(other) {
					require.True(t, has, "no job is left while a pool that serves it has room")
					require.True(t, p.id == j.preset || other.priority <= p.priority, "priority first")
				}
			}
		}

		// The same again: nothing moves.
		again := slices.Clone(jobs)
		for i := range again {
			again[i].preset = got[slices.IndexFunc(got, func(a assignment) bool { return a.job == again[i].id })].preset
		}
		require.Equal(t, got, match(again, pools, spread), "stable")
		// In another order: the same.
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		r.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		r.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
		require.Equal(t, got, match(jobs, pools, spread), "the order does not matter")
	})
}

// crowd is many jobs and pools, with as many repositories and label sets as there may be.
func crowd(jobs, pools int) ([]queued, []pool) {
	var js []queued
	var ps []pool
	for i := range pools {
		ps = append(ps, aPool(fmt.Sprintf("t/p%d", i), i%3, 20, "linux", fmt.Sprintf("size-%d", i%50), fmt.Sprintf("zone-%d", i%7)))
	}
	for i := range jobs {
		j := aJob(i, "linux", fmt.Sprintf("size-%d", i%50))
		j.repository = fmt.Sprintf("acme/r%d", i%500)
		js = append(js, j)
	}
	return js, ps
}

func BenchmarkMatch_5000JobsAnd500Pools(b *testing.B) {
	jobs, pools := crowd(5000, 500)
	for b.Loop() {
		match(jobs, pools, nil)
	}
}
