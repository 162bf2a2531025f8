package events

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	leastGap  = 250 * time.Millisecond // between two looks, however much happens: what happens in between is merged
	mostGap   = 500 * time.Millisecond // between two looks while somebody watches
	lookLimit = 10 * time.Second
	// maxStreams bounds the memory of a replica. Each takes about 50 KB.
	maxStreams = 2000
	// maxPerUser leaves streams for others, whatever one user opens.
	maxPerUser = maxStreams / 4
)

// ErrTooMany: the user has as many streams of the replica as one may have.
var ErrTooMany = fmt.Errorf("you have %d event streams at this replica, and nobody may have more: close some", maxPerUser)

// ErrFull: the replica has as many streams as it takes.
var ErrFull = errors.New("this replica has as many event streams as it takes")

// Options of a Hub. All are needed.
type Options struct {
	Store      *database.Store
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
}

// Hub looks for changes and tells them to the streams of a replica.
type Hub struct {
	Options
	metrics *metrics
	hinted  hints.Bell // something may have changed
	joined  hints.Bell // a stream came

	mu      sync.Mutex
	streams map[*Stream]struct{}
	of      map[uuid.UUID]int // how many each user has
	stopped bool

	// Of Run alone.
	reader reader
	active bool // the reader has begun, and has not paused since
}

// New returns a Hub, which works while Run does.
func New(o Options) *Hub {
	o.Log = o.Log.Named("events")
	return &Hub{
		Options: o, metrics: newMetrics(o.Registerer), hinted: hints.NewBell(), joined: hints.NewBell(),
		streams: map[*Stream]struct{}{}, of: map[uuid.UUID]int{}, reader: reader{store: o.Store},
	}
}

// Subscribe begins a stream, to be ended with Close. Its first event is everything. The refusals are ErrFull,
// ErrTooMany and ErrStopping.
func (h *Hub) Subscribe(who auth.Identity) (*Stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.stopped:
		return nil, ErrStopping
	case len(h.streams) >= maxStreams:
		return nil, ErrFull
	}
	if h.of[who.UserID] >= maxPerUser {
		return nil, ErrTooMany
	}
	s := newStream(h, who)
	h.streams[s] = struct{}{}
	h.of[who.UserID]++
	h.metrics.streams.Set(float64(len(h.streams)))
	h.joined.Ring()
	return s, nil
}

func (h *Hub) leave(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.streams[s]; !ok {
		return
	}
	delete(h.streams, s)
	if h.of[s.who.UserID]--; h.of[s.who.UserID] == 0 {
		delete(h.of, s.who.UserID)
	}
	h.metrics.streams.Set(float64(len(h.streams)))
}

// Heard takes a hint that something may have changed. It does not block.
func (h *Hub) Heard() { h.hinted.Ring() }

// Run looks and tells until ctx ends, and then ends all streams.
func (h *Hub) Run(ctx context.Context) {
	defer h.stop()
	failing := false
	for h.wait(ctx) {
		err := h.look(ctx)
		if err != nil && !failing && ctx.Err() == nil { // said once; nothing is lost, the next look finds it
			h.Log.Warn(ctx, "look for changes", slog.Error(err))
		}
		failing = err != nil
	}
}

// wait returns when it is time to look; false when it is time to stop.
func (h *Hub) wait(ctx context.Context) bool {
	if len(h.all()) == 0 {
		h.active = false
		select {
		case <-ctx.Done():
			return false
		case <-h.joined:
			return true
		}
	}
	least := h.Clock.NewTimer(leastGap, "events", "least")
	defer least.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	most := h.Clock.NewTimer(mostGap-leastGap, "events", "most")
	defer most.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-h.joined:
	case <-h.hinted:
	case <-most.C:
	}
	return true
}

// look tells the streams what has changed since the last look, and those that are new to read everything.
func (h *Hub) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	streams := h.all() // those that came before the look: it is all they may have missed
	now := h.Clock.Now("events", "look")
	if !h.active {
		if err := h.reader.begin(ctx, now); err != nil {
			return err
		}
		h.active = true
	}
	changes, behind, err := h.reader.read(ctx, now)
	h.metrics.changes.Add(float64(len(changes)))
	news := &edition{changes: changes, messages: map[audience]*Message{}}
	for _, s := range streams {
		switch {
		case behind, err == nil && !s.hasJoined():
			s.tellEverything()
		default:
			s.tell(news)
		}
	}
	return err
}

// stop ends all streams, and lets none in.
func (h *Hub) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
	for _, s := range h.all() {
		s.stop()
	}
}

func (h *Hub) all() []*Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.streams))
}
