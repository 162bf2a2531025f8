package prebuilds

import (
	"bytes"
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/google/uuid"
)

// Clamp cuts the creates of plans down to what their providers' limits leave, and enters in each ledger what was held
// back by which limit (S4, S5). It returns the limits as they are after these creates, for nudge passes to spend.
//
// Where a limit binds, claims and jobs that wait come first, then a higher priority. Within a priority each next create goes to the emptiest pool:
// the one with the smallest share of what it wants, counting what it was just given. So equals take turns, a large pool
// cannot starve a small one, and the order of plans does not matter. A maximum that is already exceeded holds back
// every create, and never makes anything go.
//
// Before that, what is being built at once is kept within the limits of templates that have one.
//
// Nil plans, those of presets in error, are passed over. The work grows with the creates granted, not with those held
// back.
func Clamp(plans []*Plan, limits map[string]Limits) (left map[string]Limits) {
	clampTemplates(plans)
	byProvider := make(map[string][]*contender)
	for _, plan := range plans {
		if plan == nil || plan.Create == 0 {
			continue
		}
		p := plan.Preset.Provider
		byProvider[p] = append(byProvider[p], contend(plan))
	}
	left = maps.Clone(limits)
	for name, cs := range byProvider {
		l, known := limits[name]
		if !known {
			for _, c := range cs {
				c.plan.holdBack(c.plan.Create, "S4", Reason{UnknownProvider, Args{Provider: name}})
			}
			continue
		}
		room, reason, rule := l.room(name)
		granted := share(cs, room)
		l = l.without(granted)
		for _, c := range cs {
			held := c.plan.Create - c.granted
			c.plan.Again = held > 0 && l.Chunk == granted
			c.plan.holdBack(held, rule, reason)
			if held > 0 && l.Rate != nil && rule == "S5" {
				c.plan.retryAt(l.Rate.spend(granted).NextAt)
			}
			if rule == "S4" && !l.Stale { // else nobody knows whether what goes would make room
				c.plan.makeRoom(c.preset, held, reason)
			}
		}
		l.Live += granted
		l.Chunk -= granted
		l.Rate = l.Rate.spend(granted)
		left[name] = l
	}
	return left
}

// room is how many creates the limits leave, and which of the limits says so. The reasons carry no numbers that move
// with every create.
func (l Limits) room(provider string) (n int, reason Reason, rule string) {
	n, reason, rule = max(0, l.Chunk), Reason{ProviderChunk, Args{Provider: provider}}, "S5"
	if l.Rate != nil && l.Rate.Creates <= n {
		n, reason = l.Rate.Creates, Reason{CreateRate, Args{Provider: provider, Every: l.Rate.rate.Every}}
	}
	if l.Maximum > 0 && l.Maximum-l.Live <= n {
		n, reason, rule = max(0, l.Maximum-l.Live), Reason{ProviderMaximum, Args{Limit: l.Maximum, Provider: provider}}, "S4"
	}
	if l.Reserves && l.unused() <= n {
		n, reason, rule = l.unused(), l.whyNoMachine(provider), "S4"
	}
	return n, reason, rule
}

// share hands out room one by one and returns how much was taken.
func share(cs []*contender, room int) (taken int) {
	total := 0
	for _, c := range cs {
		total += c.plan.Create
	}
	if total <= room {
		for _, c := range cs {
			c.granted = c.plan.Create
		}
		return total
	}
	queue := contenders(slices.Clone(cs))
	heap.Init(&queue)
	for ; taken < room; taken++ {
		next := queue[0]
		next.granted++
		if next.granted == next.plan.Create {
			heap.Pop(&queue)
		} else {
			heap.Fix(&queue, 0)
		}
	}
	return taken
}

// clampTemplates keeps what is being built of a template within its limit, over all of its presets (S5).
func clampTemplates(plans []*Plan) {
	byTemplate := make(map[uuid.UUID][]*contender)
	inFlight := make(map[uuid.UUID]int)
	for _, plan := range plans {
		if plan == nil {
			continue
		}
		p := &plan.Preset
		if p.TemplateCreatesInFlight == 0 {
			continue
		}
		inFlight[p.TemplateID] += plan.inFlight
		if plan.Create > 0 {
			byTemplate[p.TemplateID] = append(byTemplate[p.TemplateID], contend(plan))
		}
	}
	for id, cs := range byTemplate {
		limit := cs[0].preset.TemplateCreatesInFlight
		share(cs, max(0, limit-inFlight[id]))
		for _, c := range cs {
			c.plan.holdBack(c.plan.Create-c.granted, "S5", Reason{TemplateCreatesInFlight, Args{Limit: limit}})
		}
	}
}

// contender is a plan on its way through Clamp.
type contender struct {
	plan       *Plan
	preset     *Preset
	has, wants int
	waiting    int // claims and jobs for which nothing is being built yet
	granted    int
}

func contend(plan *Plan) *contender {
	n := plan.Counts
	return &contender{
		plan: plan, preset: &plan.Preset, has: n.Actual + n.Starting, wants: n.Desired + n.Waiting + n.Queued,
		waiting: n.Waiting + n.Queued - n.Starting,
	}
}

// forClaim says whether the next of its creates is one that a claim or a job waits for.
func (c *contender) forClaim() int {
	if c.granted < c.waiting {
		return 1
	}
	return 0
}

// before says whether c is served before d.
func (c *contender) before(d *contender) bool {
	// The shares has/wants, compared without dividing; wants is positive, for otherwise nothing would be created.
	cShare, dShare := (c.has+c.granted)*d.wants, (d.has+d.granted)*c.wants
	return cmp.Or(
		cmp.Compare(d.forClaim(), c.forClaim()),
		cmp.Compare(d.preset.Priority, c.preset.Priority),
		cmp.Compare(cShare, dShare),
		cmp.Compare(c.granted, d.granted), // equals take turns
		cmp.Compare(c.preset.Template, d.preset.Template),
		cmp.Compare(c.preset.Name, d.preset.Name),
		bytes.Compare(c.preset.ID[:], d.preset.ID[:]),
	) < 0
}

// contenders is a heap, the next to be served on top.
type contenders []*contender

func (q contenders) Len() int           { return len(q) }
func (q contenders) Less(i, j int) bool { return q[i].before(q[j]) }
func (q contenders) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *contenders) Push(x any)        { *q = append(*q, x.(*contender)) }
func (q *contenders) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
