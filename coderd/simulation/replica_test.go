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

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/replica"
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
	frozen    bool
	wakes     time.Time
	stunnedAt *call // the call before which it froze; nil: any, and it wakes by the time alone

	*replica.Replica
	store *database.Store
	stop  func()
	done  chan struct{} // it has ended by itself
}

// entropy is random bytes by the seed.
type entropy struct{ r *rand.Rand }

func (e entropy) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e.r.Uint32())
	}
	return len(b), nil
}

// start starts a replica.
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
	parts := replica.Parts{
		Name: name, Installation: w.installation, Store: p.store, Clock: clock, Log: slog.Make(w.sink(name)...),
		Registerer: prometheus.NewRegistry(), Publisher: p, Providers: registry, Tick: tick,
		Random: names, NewID: newID, Jitter: jitter, Yield: p.yield, Lease: lease, Grace: 4 * time.Second,
		Inventory: w.hasten, URL: "http://" + name,
	}
	if w.hub != nil {
		parts.Directory, parts.Pace, parts.Deregister = phonebook{p, w.hub}, hubPace, p.deregister
	}
	p.Replica = replica.New(ctx, parts)
	p.Start(ctx, p.Reconciler.Run, p.Worker.Run, p.Instances.Run, p.Inventory.Run)
	if w.terms != nil {
		p.Start(ctx, p.Leases.Run)
	}
	if w.hub != nil {
		p.Start(ctx, p.Inbox.Run, p.Runners.Run)
	}
	p.stop = sync.OnceFunc(func() {
		cancel()
		go func() {
			p.Wait()
			close(p.done)
		}()
	})
	p.missed() // listening has just begun
	w.processes = append(w.processes, p)
	return p
}

// Publish is pubsub's.
func (p *process) Publish(ctx context.Context, channel, payload string) error {
	return database.New(p.store).Notify(ctx, database.NotifyParams{Channel: channel, Payload: payload})
}

// yield is where a batch of claims waits for company: until the scheduler says so.
func (p *process) yield() {
	p.submit(&call{ctx: context.Background(), name: "batch", mark: markYield})
}

// missed is the Resync of all subscriptions.
func (p *process) missed() {
	for _, channel := range hints.Channels() {
		p.Hints.Missed(channel)
	}
}

func (p *process) up() bool { return !p.dead && !p.frozen && !p.stops }
