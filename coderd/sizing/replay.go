package sizing

import (
	"sort"
	"time"
)

// Replay says what another size would have made of claims that came.
type Replay struct {
	Claims, Hits int
	Idle         time.Duration // prebuilds ready and unclaimed, summed
	Span         time.Duration
	Peak         int // the largest size
}

// HitRate is 1 where nothing was claimed.
func (r Replay) HitRate() float64 {
	if r.Claims == 0 {
		return 1
	}
	return float64(r.Hits) / float64(r.Claims)
}

// MeanIdle is how many prebuilds were idle on average.
func (r Replay) MeanIdle() float64 {
	if r.Span <= 0 {
		return 0
	}
	return float64(r.Idle) / float64(r.Span)
}

// Sizer says the size at an instant, given what happened in the replay before it.
type Sizer func(h *History, now time.Time) int

// Static is always the same size.
func Static(size int) Sizer { return func(*History, time.Time) int { return size } }

// Autosized is what autosize would have done.
func Autosized(s Settings) Sizer {
	var state State
	return func(h *History, now time.Time) int {
		var r Recommendation
		r, state = Step(s, state, h, now, true)
		return r.Size
	}
}

// World is what a replay takes as given.
type World struct {
	From, To  time.Time
	Claims    []time.Time // in order, from From on, before To
	Provision time.Duration
	Miss      Miss
	// Known is what had happened before From; nil: nothing. The replay adds to it.
	Known *History
}

// Replay plays the claims against a pool that is sized anew every minute, refills at once after a claim, and takes Provision
// to build a prebuild. It begins with a pool that is filled.
func (w World) Replay(size Sizer) Replay {
	p := pool{world: w, history: w.Known, now: w.From, result: Replay{Claims: len(w.Claims), Span: w.To.Sub(w.From)}}
	if p.history == nil {
		p.history = NewHistory(w.From)
	}
	p.size = size(p.history, w.From)
	p.ready, p.result.Peak = p.size, p.size
	next := w.From.Add(pace)
	for _, at := range w.Claims {
		p.stepsUntil(at, &next, size)
		p.claim(at)
	}
	p.stepsUntil(w.To, &next, size)
	p.until(w.To)
	return p.result
}

// pool is the pool of a replay at an instant.
type pool struct {
	world    World
	history  *History
	now      time.Time
	size     int
	ready    int
	waiting  int
	starting []time.Time // when each becomes ready, in order
	result   Replay
}

func (p *pool) stepsUntil(at time.Time, next *time.Time, size Sizer) {
	for ; !next.After(at) && next.Before(p.world.To); *next = next.Add(pace) {
		p.until(*next)
		p.size = size(p.history, *next)
		p.result.Peak = max(p.result.Peak, p.size)
		p.fill()
	}
}

// until lets time pass: what is due becomes ready, and goes to who waits longest.
func (p *pool) until(at time.Time) {
	for len(p.starting) > 0 && !p.starting[0].After(at) {
		p.pass(p.starting[0])
		p.history.Add(p.starting[0], Bucket{Provisions: 1, ProvisionSeconds: p.world.Provision.Seconds()})
		p.starting = p.starting[1:]
		if p.waiting > 0 {
			p.waiting--
		} else {
			p.ready++
		}
	}
	p.pass(at)
}

func (p *pool) pass(at time.Time) {
	p.result.Idle += time.Duration(p.ready) * at.Sub(p.now)
	p.now = at
}

func (p *pool) claim(at time.Time) {
	p.until(at)
	b := Bucket{Claims: 1}
	switch {
	case p.ready > 0:
		p.ready--
		p.result.Hits++
		b.Hits = 1
	case p.world.Miss != MissCold:
		p.waiting++
	}
	p.history.Add(at, b)
	p.fill()
}

// fill is rules C5 and C6: what is missing is started, what is too much goes, the latest started first.
func (p *pool) fill() {
	want := p.size + p.waiting - p.ready - len(p.starting)
	for ; want > 0; want-- {
		p.starting = append(p.starting, p.now.Add(p.world.Provision))
	}
	for ; want < 0 && len(p.starting) > 0; want++ {
		p.starting = p.starting[:len(p.starting)-1]
	}
	if want < 0 {
		p.ready = max(0, p.ready+want)
	}
}

// SmallestStatic is the smallest size up to `most` whose replay reaches the target hit rate, and that replay; `most` where
// none does.
func (w World) SmallestStatic(target float64, most int) (int, Replay) {
	w.Known = nil // it is no business of a size that never changes
	size := sort.Search(most, func(n int) bool { return w.Replay(Static(n)).HitRate() >= target })
	return size, w.Replay(Static(size))
}
