//go:build !race

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/lifecycle"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	tick  = 5 * time.Second
	lease = 6 * time.Second
)

// process is one run of a replica. A replica that crashed comes back as another process of the same name.
type process struct {
	w     *world
	name  string
	run   int  // of that name
	dead  bool // crashed, or stopped in order
	stops bool // is being stopped in order
	ill   time.Time
	// frozen: nothing leaves it and nothing reaches it until it wakes.
	frozen bool
	wakes  time.Time

	store      *database.Store
	hints      *hints.Hints
	reconciler *reconcile.Reconciler
	worker     *lifecycle.Worker
	claims     *claim.Service
	writer     *workspaces.Writer
	instances  *instance.Service
	config     *templates.Service
	inbox      *inbox.Service // nil, as the next, where there is no forge
	runners    *runners.Service
	stop       func()
	done       chan struct{} // it has ended by itself
}

// entropy is random bytes by the seed.
type entropy struct{ r *rand.Rand }

func (e entropy) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e.r.Uint32())
	}
	return len(b), nil
}

// start starts a replica as coderd does.
func (w *world) start(name string) *process {
	w.runs[name]++
	p := &process{w: w, name: name, run: w.runs[name], done: make(chan struct{}), ill: w.now()}
	random := entropy{w.random("process", name, fmt.Sprint(p.run))}
	var mu sync.Mutex
	newID := func() uuid.UUID {
		mu.Lock()
		defer mu.Unlock()
		return uuid.Must(uuid.NewRandomFromReader(random))
	}
	names := entropy{w.random("names", name, fmt.Sprint(p.run))}
	jitter := func(most time.Duration) time.Duration {
		h := fnv.New64a()
		fmt.Fprint(h, w.seed, name, p.run, w.elapsed(), most)
		return time.Duration(h.Sum64() % uint64(max(most, 1)))
	}
	clock := quartz.NewReal() // of the bubble
	log := slog.Make(w.sink(name)...)
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	p.store = database.Over(link{p}, clock, jitter)
	registry := provider.NewRegistry(map[string]provider.Factory{
		"sim": func(json.RawMessage) (provider.Provider, error) { return cloud{p, w.cloud}, nil },
	}, func(ctx context.Context) bool {
		if database.InTransaction(ctx) {
			w.violate("I8", "%s calls a provider inside of a transaction", name)
		}
		return database.InTransaction(ctx)
	})
	registry.Update([]provider.Row{{Name: "sim", Kind: "sim"}})
	p.hints = hints.New(ctx, p, log)
	p.writer = workspaces.New(p.store, newID, name)
	p.reconciler = reconcile.New(reconcile.Options{
		Store: p.store, Writer: p.writer, Clock: clock, Log: log, Registerer: reg, Replica: name, Tick: tick,
		Random: names, NewID: newID, Jitter: jitter, Hints: p.hints,
	})
	p.claims = claim.New(claim.Options{
		Store: p.store, Writer: p.writer, Clock: clock, Log: log, Registerer: reg, NewID: newID,
		Hints: p.hints, Yield: p.yield,
	})
	p.instances = instance.New(instance.Options{
		Store: p.store, Writer: p.writer, Clock: clock, Log: log, Registerer: reg, URL: "http://" + name,
		Hints: p.hints,
	})
	p.writer.OnClaimed(p.instances.Claimed)
	deregister := p.demand(part{clock, log, reg, newID, jitter})
	p.worker = lifecycle.New(lifecycle.Options{
		Store: p.store, Writer: p.writer, Providers: registry, Clock: clock, Log: log, Registerer: reg,
		Replica: name, Installation: w.installation, Hints: p.hints,
		Callback: p.instances.Callback, Lease: lease, Grace: 4 * time.Second, Jitter: jitter, Deregister: deregister,
	})
	inventories := inventory.New(w.hasten(inventory.Options{
		Store: p.store, Writer: p.writer, Providers: registry, Clock: clock, Log: log, Registerer: reg, Replica: name,
		Installation: w.installation, Hints: p.hints,
	}))
	ears := hints.Ears{
		Nudge: p.reconciler.Nudge, Cause: p.reconciler.Cause, HeardNudge: p.reconciler.Heard,
		MissedNudges: p.reconciler.Missed, Wake: p.worker.Wake, Bound: p.claims.Bound, MissedBound: p.claims.Missed,
		Claimed: p.instances.Heard,
	}
	if w.hub != nil {
		ears.Inbox, ears.Demand, ears.Settle = p.inbox.Wake, p.inbox.MatchSoon, p.runners.SettleSoon
	}
	p.hints.Connect(ears)
	p.config = &templates.Service{Store: p.store, NewProvider: registry.New}

	loops := []func(context.Context){
		func(ctx context.Context) { _ = p.reconciler.Run(ctx) }, func(ctx context.Context) { _ = p.worker.Run(ctx) },
		p.instances.Run, inventories.Run,
	}
	if w.hub != nil {
		loops = append(loops, p.inbox.Run, p.runners.Run)
	}
	var running sync.WaitGroup
	for _, run := range loops {
		running.Go(func() { run(ctx) })
	}
	p.stop = sync.OnceFunc(func() {
		cancel()
		go func() {
			p.claims.Close()
			running.Wait()
			close(p.done)
		}()
	})
	p.missed() // listening has just begun
	w.processes = append(w.processes, p)
	return p
}

// Publish is pubsub's.
func (p *process) Publish(ctx context.Context, channel, payload string) error {
	return p.store.Notify(ctx, database.NotifyParams{Channel: channel, Payload: payload})
}

// yield is where a batch of claims waits for company: until the scheduler says so.
func (p *process) yield() {
	p.submit(&call{ctx: context.Background(), name: "batch", mark: markYield})
}

// missed is the Resync of all subscriptions.
func (p *process) missed() {
	for _, channel := range hints.Channels() {
		p.hints.Missed(channel)
	}
}

func (p *process) up() bool { return !p.dead && !p.frozen && !p.stops }
