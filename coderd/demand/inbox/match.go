package inbox

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// queued is a job that waits for a runner, as matching sees it.
type queued struct {
	id, organization, entity uuid.UUID
	forgeURL, repository     string
	labels                   []string // as forge.Labels makes them
	queuedAt                 time.Time
	preset                   uuid.UUID // whose demand it is until now; nil: nobody's
	unserved                 string
}

// pool is a runner preset, as matching sees it.
type pool struct {
	id, organization, template, entity uuid.UUID
	name                               string // template/preset
	priority                           int
	labels                             []string
	maximum                            int // 0: no limit
	busy                               int // jobs at its runners
	scope                              forge.Scope
	path, forgeURL                     string
	off                                string // why it serves nothing now; empty: it does

	assigned int
}

func (p *pool) room() bool { return p.maximum == 0 || p.busy+p.assigned < p.maximum }

// covers says whether the runners of a pool may be given a job at all: jobs of the pool's repository or organization, and
// those that came by the pool's own entity, which is the only way to tell for an enterprise.
func (p *pool) covers(j *queued) bool {
	if p.organization != j.organization || p.forgeURL != j.forgeURL {
		return false
	}
	switch {
	case p.entity == j.entity:
		return true
	case p.scope == forge.Enterprise:
		return false
	}
	return forge.Covers(p.scope, p.path, j.repository)
}

// assignment is whose demand a job is, or why nobody's.
type assignment struct {
	job, preset uuid.UUID
	unserved    string
}

// kind are jobs that are alike: the same pools may serve them.
type kind struct {
	tiers [][]*pool // those that serve it, by falling priority, each in order of name
	why   string    // nothing serves it
}

// matcher assigns jobs to pools. It decides purely: the same jobs and pools come to the same end, in whatever order they are
// given.
type matcher struct {
	pools  []*pool // by falling priority, then name, then id
	byID   map[uuid.UUID]*pool
	spread map[uuid.UUID]bool // entities that balance by spreading
	kinds  map[string]*kind
}

// match says of every queued job whose demand it is (P4): of one pool at most, that covers it, has all of its labels, and has
// room below its maximum, counting the jobs at its runners and those assigned before. A job that has a pool keeps it while
// that serves it. The others go, oldest first, to the highest priority with room; within a priority by the balance of the
// entity that the job came by: the first by name (pack), or the least loaded (spread).
func match(jobs []queued, pools []pool, spread map[uuid.UUID]bool) []assignment {
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(a, b queued) int {
		return cmp.Or(a.queuedAt.Compare(b.queuedAt), bytes.Compare(a.id[:], b.id[:]))
	})
	m := newMatcher(pools, spread)
	out := make([]assignment, len(jobs))
	var free []int
	for i := range jobs {
		j := &jobs[i]
		out[i].job = j.id
		if p := m.byID[j.preset]; p != nil && m.serves(p, j) && p.room() {
			p.assigned++
			out[i].preset = p.id
			continue
		}
		free = append(free, i)
	}
	for _, i := range free {
		k := m.kindOf(&jobs[i])
		if p := m.place(&jobs[i], k); p != nil {
			p.assigned++
			out[i].preset = p.id
		} else {
			out[i].unserved = k.unserved()
		}
	}
	return out
}

func newMatcher(pools []pool, spread map[uuid.UUID]bool) *matcher {
	m := &matcher{byID: make(map[uuid.UUID]*pool, len(pools)), spread: spread, kinds: map[string]*kind{}}
	for _, p := range pools {
		p.assigned = 0
		m.pools, m.byID[p.id] = append(m.pools, &p), &p
	}
	slices.SortFunc(m.pools, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name), bytes.Compare(a.id[:], b.id[:]))
	})
	return m
}

func (*matcher) serves(p *pool, j *queued) bool {
	return p.off == "" && p.covers(j) && forge.Serves(p.labels, j.labels)
}

// kindOf is looked up once for all jobs that are alike: there are few kinds of jobs, however many jobs.
func (m *matcher) kindOf(j *queued) *kind {
	key := strings.Join([]string{
		string(j.organization[:]), string(j.entity[:]), j.forgeURL, strings.ToLower(j.repository), strings.Join(j.labels, "\x1f"),
	}, "\x1e")
	if k := m.kinds[key]; k != nil {
		return k
	}
	k := &kind{}
	var covering []*pool
	for _, p := range m.pools {
		if !p.covers(j) {
			continue
		}
		covering = append(covering, p)
		if p.off != "" || !forge.Serves(p.labels, j.labels) {
			continue
		}
		if n := len(k.tiers); n == 0 || k.tiers[n-1][0].priority != p.priority {
			k.tiers = append(k.tiers, nil)
		}
		last := len(k.tiers) - 1
		k.tiers[last] = append(k.tiers[last], p)
	}
	if len(k.tiers) == 0 {
		k.why = whyNothing(j, covering)
	}
	m.kinds[key] = k
	return k
}

// place finds the pool for a job, or none.
func (m *matcher) place(j *queued, k *kind) *pool {
	for _, tier := range k.tiers {
		var best *pool
		for _, p := range tier {
			if !p.room() || (best != nil && !less(tier, p, best)) {
				continue
			}
			best = p
			if !m.spread[j.entity] {
				break
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// less says whether a has less load than b: by share of their maxima where all of their tier have one, else by number.
func less(tier []*pool, a, b *pool) bool {
	x, y := a.busy+a.assigned, b.busy+b.assigned
	if slices.ContainsFunc(tier, func(p *pool) bool { return p.maximum == 0 }) {
		return x < y
	}
	return x*b.maximum < y*a.maximum
}

// unserved says why a job of the kind is nobody's demand, when there is no room for it.
func (k *kind) unserved() string {
	if k.why != "" {
		return k.why
	}
	var full []string
	for _, tier := range k.tiers {
		for _, p := range tier {
			full = append(full, fmt.Sprintf("%s %d", p.name, p.maximum))
		}
	}
	return "all pools that could serve it are at their maximum: " + some(full)
}

// whyNothing says what is missing for a job that no pool serves, and what to do.
func whyNothing(j *queued, covering []*pool) string {
	if len(j.labels) == 0 {
		return "it asks for no label, so it is for no runner of Prewarm: give it one in its workflow (runs-on)"
	}
	if len(covering) == 0 {
		return "no preset has runners for " + j.repository +
			": give one a runner section with a forge entity that covers the repository"
	}
	offered := map[string]bool{}
	for _, p := range covering {
		if forge.Serves(p.labels, j.labels) {
			return p.name + " would serve it, but " + p.off
		}
		for _, l := range p.labels {
			offered[l] = true
		}
	}
	missing := lists.Only(j.labels, func(l string) bool { return !offered[l] })
	switch len(missing) {
	case 0:
		return "no preset has all of its labels together: " + some(j.labels)
	case 1:
		return "no preset has the label " + missing[0] + ": give it to one, or change the workflow (runs-on)"
	}
	return "no preset has the labels " + some(missing) + ": give them to one, or change the workflow (runs-on)"
}

// some lists the first few.
func some(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
