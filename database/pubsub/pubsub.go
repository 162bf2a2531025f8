// Package pubsub carries hints between replicas over PostgreSQL's LISTEN and NOTIFY.
//
// A hint says that something may have changed, and may get lost: whoever acts on one also acts without it, on a tick
// (I9). What pubsub promises is to say so when hints may have been lost: the subscriber gets a Resync event, and reads
// everything again. That is
//
//   - when listening begins, so the first event of every subscription is a Resync;
//   - after each reconnect;
//   - when the subscriber was too slow for what arrived.
//
// One connection of its own listens for all subscribers. It is made again with backoff for as long as it takes, and
// pinged when quiet, since a peer that vanished without a word looks like one that has nothing to say. Each subscriber
// has a queue and a goroutine, so that a slow one delays nobody; equal hints that wait in a queue become one.
package pubsub

import (
	"context"
	"sync"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// Event is one hint, or with Resync the news that any number of hints may have been lost.
type Event struct {
	Channel string
	Payload string // empty with Resync
	Resync  bool
}

// PubSub is one replica's connection to the others.
type PubSub struct {
	store  *database.Store
	clock  quartz.Clock
	logger slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu          sync.Mutex
	subscribers map[string]map[*subscriber]struct{} // by channel
	listening   map[string]bool                     // channels that the connection of now listens on
	changed     chan struct{}                       // the set of channels has changed
}

// New starts to connect to the store's database in the background. It ends with ctx or Close.
func New(ctx context.Context, store *database.Store, clock quartz.Clock, logger slog.Logger) *PubSub {
	ctx, cancel := context.WithCancel(ctx)
	p := &PubSub{
		store:       store,
		clock:       clock,
		logger:      logger,
		ctx:         ctx,
		cancel:      cancel,
		subscribers: map[string]map[*subscriber]struct{}{},
		listening:   map[string]bool{},
		changed:     make(chan struct{}, 1),
	}
	p.done.Go(p.run)
	return p
}

// Close ends all subscriptions and waits for the calls under way, whose context has ended.
func (p *PubSub) Close() {
	p.cancel()
	p.done.Wait()
}

// Publish sends a hint of at most 7999 bytes to all replicas, this one included. It must not be called inside of a
// transaction: NOTIFY takes a global lock at commit, and a hint before the commit comes too early.
func (p *PubSub) Publish(ctx context.Context, channel, payload string) error {
	if database.InTransaction(ctx) {
		return xerrors.Errorf("publish on %s: inside of a transaction", channel)
	}
	if err := database.New(p.store).Notify(ctx, database.NotifyParams{Channel: channel, Payload: payload}); err != nil {
		return xerrors.Errorf("publish on %s: %w", channel, err)
	}
	return nil
}

// Subscribe calls handle for each event on the channel, one at a time, the first being a Resync. cancel ends that; a
// call under way finds its context ended.
func (p *PubSub) Subscribe(channel string, handle func(ctx context.Context, event Event)) (cancel func()) {
	ctx, end := context.WithCancel(p.ctx)
	s := newSubscriber(channel, handle)

	p.mu.Lock()
	if p.subscribers[channel] == nil {
		p.subscribers[channel] = map[*subscriber]struct{}{}
	}
	p.subscribers[channel][s] = struct{}{}
	if p.listening[channel] {
		s.resync()
	}
	p.mu.Unlock()
	p.signalChanged()

	p.done.Go(func() { s.run(ctx) })
	return func() {
		end()
		p.mu.Lock()
		delete(p.subscribers[channel], s)
		if len(p.subscribers[channel]) == 0 {
			delete(p.subscribers, channel)
		}
		p.mu.Unlock()
		p.signalChanged()
	}
}

func (p *PubSub) signalChanged() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *PubSub) dispatch(channel, payload string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subscribers[channel] {
		s.push(payload)
	}
}
