//go:build !race

package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// plan says what to simulate. The zero values of all but Seed and Steps leave nothing out.
type plan struct {
	Seed    uint64
	Steps   int
	Without []string // kinds of faults and events, or numbers of steps, that are left out
	Verbose bool
}

// world is everything there is during one seed.
type world struct {
	plan
	seed         uint64
	without      map[string]bool
	pg           *postgres
	cloud        *sim.Provider
	hub          *hub   // nil: this seed has no forge
	back         *back  // nil: nobody does anything behind it
	terms        *terms // nil: claims last until they are released, come one by one, and are not counted
	installation uuid.UUID
	owner        uuid.UUID

	began    time.Time
	shift    time.Duration // what the database's clock is ahead of the bubble's
	setBack  bool          // that clock was set back
	step     int
	idle     int // steps of which were looks that found nothing to do
	seq      int
	trouble  float64 // how likely a call goes wrong
	calm     bool    // faults are over
	settled  bool    // has converged; claims from now on are the ending's own
	over     bool
	arriving sync.Mutex // guards arrivals while replicas run
	arrived  hints.Bell
	arrivals []*call // since the last step
	pending  []*call
	blocked  []*call
	hung     []*call
	strays   []stray
	slow     time.Time // until when workers are slow to take up intents
	ambush   ambush
	// until when passes are slow to begin
	slowPasses time.Time
	spoiled    time.Time // until when the provider refuses to create
	lastJobs   time.Time // until when runners that are to go are given a job also without other faults
	noDeletes  time.Time // until when the provider's deletes fail after their effect
	regretted  bool      // in the calm at the end, a failed create was tried again
	regret     uuid.UUID // somebody wants this one, which has just failed, to be tried again
	mail       []letter
	processes  []*process
	runs       map[string]int
	people     people
	agents     map[uuid.UUID]*agent
	model      *model
	failure    *violation
	trace      []string
	hash       uint64
	coverage   map[string]int
	logs       []string
}

// letter is a notification on its way to a process.
type letter struct {
	to               *process
	channel, payload string
}

// violation is the end of a seed.
type violation struct {
	Invariant string
	Text      string
	Step      int
}

func newWorld(p plan, pg *postgres, ids identities) *world {
	w := &world{
		plan: p, seed: p.Seed, without: map[string]bool{}, pg: pg, installation: ids.installation, owner: ids.owner,
		began: time.Now(), arrived: hints.NewBell(), runs: map[string]int{}, agents: map[uuid.UUID]*agent{},
		coverage: map[string]int{}, hash: 14695981039346656037,
	}
	for _, kind := range p.Without {
		w.without[kind] = true
	}
	w.model = newModel(w)
	w.trouble = []float64{0.01, 0.04, 0.08}[w.random("trouble").IntN(3)]
	w.cloud, _ = sim.New(sim.Options{Seed: p.Seed, Clock: quartz.NewReal()})
	return w
}

// random is a source of chance of its own for each purpose.
func (w *world) random(purpose ...string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, strings.Join(purpose, "\x00"))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// dice are the chance of this step for a purpose, so that what is left out elsewhere changes nothing here.
func (w *world) dice(purpose string) *rand.Rand { return w.random("step", fmt.Sprint(w.step), purpose) }

func (w *world) elapsed() time.Duration { return time.Since(w.began) }

// now is the database's clock.
func (w *world) now() time.Time { return time.Now().Add(w.shift).Truncate(time.Microsecond) }

func (w *world) violate(invariant, format string, args ...any) {
	if w.failure == nil {
		w.failure = &violation{invariant, fmt.Sprintf(format, args...), w.step}
		w.note("VIOLATION %s: %s", invariant, w.failure.Text)
	}
}

func (w *world) fired(what string) { w.coverage[what]++ }

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%4d %8.3fs ", w.step, w.elapsed().Seconds()) + fmt.Sprintf(format, args...)
	for _, b := range []byte(line) {
		w.hash = (w.hash ^ uint64(b)) * 1099511628211
	}
	w.trace = append(w.trace, line)
}

type sink struct {
	w    *world
	name string
}

func (s sink) LogEntry(_ context.Context, e slog.SinkEntry) {
	if e.Level >= slog.LevelWarn {
		s.w.logs = append(s.w.logs, fmt.Sprintf("%4d %s %s %v", s.w.step, s.name, e.Message, e.Fields))
	}
}
func (s sink) Sync() {}

func (w *world) sink(name string) []slog.Sink {
	if !w.Verbose {
		return nil
	}
	return []slog.Sink{sink{w, name}}
}

// live is the whole life of a world; it runs as the root of the bubble.
func (w *world) live() {
	w.furnish()
	for i := range 2 + w.random("replicas").IntN(5)/2 {
		w.start(fmt.Sprintf("r%d", i+1))
	}
	w.apply(w.processes[0])
	if w.random("warm").IntN(4) > 0 { // most seeds begin with a pool that is warm
		w.calm = true
		w.during(20*time.Second, func() bool { return w.step > 2000 || w.unsettled() == "" })
		w.calm, w.idle = false, w.step
		w.note("faults begin")
		w.opening()
	}
	for w.step++; w.step-w.idle <= w.Steps && w.failure == nil; w.step++ {
		w.advance()
	}
	if w.failure == nil {
		w.ending()
	}
	w.close()
}

// advance is one step: something gets through, something happens, or time passes.
func (w *world) advance() {
	synctest.Wait()
	if w.calm {
		w.workOff()
	}
	w.admit()
	w.tidy()
	w.land()
	w.strike()
	d := w.dice("choice")
	runnable := w.runnable()
	switch roll := d.Float64(); {
	case w.regret != uuid.Nil && w.again():
	case !w.calm && roll < 0.07 && !w.lurking() && w.happen():
	case !w.calm && w.hub != nil && w.dice("hub").Float64() < 0.08 && w.happenOf(jobsHappen, "at the hub"):
	case !w.calm && w.back != nil && w.dice("back").Float64() < 0.03 && w.happenOf(behindHappen, behindTheBack):
	case !w.calm && w.terms != nil && w.dice("terms").Float64() < 0.05 && w.happenOf(termsHappen, onTerms):
	case len(runnable) == 0 || roll < 0.15 && !w.calm:
		w.pass(d, len(runnable) > 0)
	default:
		i := d.IntN(len(runnable))
		if w.calm {
			i = 0
		}
		runnable[i]()
	}
}

// admit puts what has arrived in line. Timers that fire at one instant do so in no particular order, and neither do
// goroutines that wake of one, so what arrived between two steps is put in order by what it is.
func (w *world) admit() {
	slices.SortStableFunc(w.arrivals, func(a, b *call) int { return cmp.Compare(a.key(), b.key()) })
	for _, c := range w.arrivals {
		w.seq++
		c.seq = w.seq
		if c.mark == markBegin {
			c.tx.seq = w.seq
		}
	}
	w.pending = append(w.pending, w.arrivals...)
	w.arrivals = nil
}

func (c *call) key() string {
	raw, _ := json.Marshal(c.args)
	args := strings.ReplaceAll(string(raw), c.p.w.owner.String(), "owner") // who has another id in each database
	inside := 0
	if c.tx != nil {
		inside = c.tx.seq
	}
	return fmt.Sprint(c.p.name, c.p.run, c.name, c.subject, args, inside, c.ctx.Value(requestKey{}), c.from)
}

// runnable is all that could go on now, in the order in which it came up.
func (w *world) runnable() []func() {
	var list []func()
	for _, c := range w.pending {
		if !c.p.frozen && !w.waitsYet(c) {
			list = append(list, func() { w.through(c) })
		}
	}
	for i, l := range w.mail {
		if !l.to.frozen {
			list = append(list, func() { w.deliver(i) })
		}
	}
	return list
}

// pass lets time pass until something arrives; only a little if something could go on already.
func (w *world) pass(d *rand.Rand, hurry bool) {
	most := 2 * time.Second
	if hurry {
		most = time.Duration(1+d.IntN(300)) * time.Millisecond
	}
	select {
	case <-w.arrived:
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.arrived:
	case <-timer.C:
	}
	synctest.Wait()
}

func (w *world) drop(c *call) {
	w.pending = slices.DeleteFunc(w.pending, func(o *call) bool { return o == c })
}

// through lets a call through, with its fate.
func (w *world) through(c *call) {
	if w.stunned(c) {
		return
	}
	w.drop(c)
	f := w.fateOf(c)
	switch c.mark {
	case markAnswer:
		v, err := c.act(f)
		c.give(reply{value: v, err: err})
	case markYield:
		w.idle++
		c.give(reply{})
	case markProvider:
		w.provide(c, f)
	default:
		w.execute(c, f)
	}
}

func (w *world) provide(c *call, f fate) {
	hang := f == fateHangBefore || f == fateHangAfter
	var v any
	var err error
	if f != fateHangBefore {
		v, err = c.act(f)
	}
	w.note("%s %s %s%s", c.p.name, c.name, outcomeOf(err), suffix(f))
	if hang { // it answers when its context ends, or when the provider is well again
		w.hung = append(w.hung, c)
		return
	}
	c.give(reply{value: v, err: err})
}

func suffix(f fate) string {
	if f == fateGood {
		return ""
	}
	return " [" + f.String() + "]"
}

func outcomeOf(err error) string {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &pg):
		return pg.Code + " " + pg.ConstraintName
	default:
		return "error"
	}
}

// deliver brings a notification, or not, or twice.
func (w *world) deliver(i int) {
	l := w.mail[i]
	w.mail = slices.Delete(w.mail, i, i+1)
	d := w.dice("mail")
	f := fateGood
	if roll := d.Float64(); !w.calm && roll < w.trouble*2 {
		f = []fate{fateDrop, fateRepeat}[d.IntN(2)]
		if !w.allowed(f.String()) {
			f = fateGood
		} else {
			w.fired(f.String())
		}
	}
	w.note("%s hears %s%s", l.to.name, l.channel, suffix(f))
	if f != fateDrop {
		l.to.Hints.Heard(l.channel, l.payload)
	}
	if f == fateRepeat {
		w.mail = append(w.mail, l)
	}
}

// tidy ends what time ended: transactions that were idle for too long, waits for locks, frozen replicas, calls that
// nobody waits for.
func (w *world) tidy() {
	now := time.Now()
	for _, p := range w.processes {
		if p.frozen && (!now.Before(p.wakes) || p.stunnedAt != nil && w.model.anothers(p.stunnedAt)) {
			w.thaw(p)
		}
		if p.stops && !p.dead {
			select {
			case <-p.done:
				w.note("%s has stopped", p.name)
				w.bury(p)
			default:
			}
		}
	}
	w.processes = slices.DeleteFunc(w.processes, func(p *process) bool { return p.dead })
	for _, c := range slices.Clone(w.pending) {
		if c.gaveUp && !c.p.frozen {
			w.ghost(c)
		}
	}
	for _, t := range slices.Clone(w.model.open) {
		limit := 30 * time.Second
		if t.pass {
			limit = 10 * time.Second
		}
		if !t.broken && !t.deaf && now.Sub(t.touch) >= limit && !w.waits(t) {
			w.note("%s idle in a transaction: ended", t.p.name)
			w.fired("transaction timed out")
			w.lose(t)
		}
	}
	for _, c := range slices.Clone(w.blocked) {
		limit := 10 * time.Second
		if c.tx != nil && c.tx.pass {
			limit = 5 * time.Second
		}
		if c.gaveUp && !c.p.frozen && c.tx != nil { // the driver hangs up
			w.note("%s %s waits no more", c.p.name, c.name)
			w.lose(c.tx)
			continue
		}
		if now.Sub(c.since) >= limit {
			w.note("%s %s waited for a lock for too long", c.p.name, c.name)
			var a answer
			w.pg.outside(func() { a = w.pg.interrupt(c.st) })
			w.finish(c, a, fateGood)
		}
	}
}

// close ends everything, so that the bubble can end.
func (w *world) close() {
	w.over = true
	w.admit()
	for _, c := range append(w.pending, w.blocked...) {
		if c.st != nil {
			w.pg.outside(func() { w.pg.interrupt(c.st) })
			w.letGo(c)
		}
		c.give(reply{err: errLost})
	}
	w.pending, w.blocked = nil, nil
	for _, t := range slices.Clone(w.model.open) {
		w.lose(t)
	}
	for _, p := range w.processes {
		p.dead = true
		p.stop()
	}
	w.people.end()
	for _, c := range w.hung {
		c.give(reply{err: errLost})
	}
	time.Sleep(time.Minute) // what is left ends by its time-outs; the bubble's clock goes on for as long as its root lives
}
