package instance

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

const (
	// eventsWait is how long a question for events is kept open, well below what proxies allow.
	eventsWait = 25 * time.Second
	// hubTick bounds what a lost hint costs.
	hubTick = 5 * time.Second
)

// hub wakes agents that wait on this replica when their workspace may have been claimed. It is hints all the way: who is
// woken reads the database.
type hub struct {
	store *database.Store
	clock quartz.Clock
	log   slog.Logger
	hints *hints.Hints

	look  hints.Bell    // somebody elsewhere claimed, or may have
	spoke hints.Bell    // elsewhere is not empty
	done  chan struct{} // closed when the replica stops

	mu        sync.Mutex
	waiting   map[uuid.UUID]map[hints.Bell]struct{} // by workspace
	elsewhere map[uuid.UUID]struct{}                // claimed here, and not waiting here
}

func newHub(store *database.Store, clock quartz.Clock, log slog.Logger, h *hints.Hints) *hub {
	return &hub{
		store: store, clock: clock, log: log, hints: h, look: hints.NewBell(), spoke: hints.NewBell(),
		done: make(chan struct{}), waiting: map[uuid.UUID]map[hints.Bell]struct{}{},
		elsewhere: map[uuid.UUID]struct{}{},
	}
}

// Claimed says that workspaces were claimed on this replica, after the commit. It never blocks and asks no database.
func (h *hub) Claimed(ids ...uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if h.wakeUp(id) {
			continue
		}
		h.elsewhere[id] = struct{}{}
		h.spoke.Ring()
	}
}

// Heard says that a hint came from another replica, or that some may have been lost. It never blocks.
func (h *hub) Heard() { h.look.Ring() }

// run delivers until ctx ends, and then lets all who wait go.
func (h *hub) run(ctx context.Context) {
	defer close(h.done)
	ticker := h.clock.NewTicker(hubTick, "instance", "hub")
	defer ticker.Stop()
	for {
		select { // others hear of claims here before those who wait here are looked after
		case <-h.spoke:
			h.say(ctx, h.spread(ctx))
		default:
		}
		var err error
		select {
		case <-ctx.Done():
			return
		case <-h.spoke:
			err = h.spread(ctx)
		case <-h.look:
			err = h.deliver(ctx)
		case <-ticker.C:
			err = h.deliver(ctx)
		}
		h.say(ctx, err)
	}
}

func (h *hub) say(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		h.log.Warn(ctx, "look for claims to deliver", slog.Error(err))
	}
}

// spread hints to the other replicas, if any of the workspaces claimed here has an agent to tell. Claims that come
// meanwhile share the next hint.
func (h *hub) spread(ctx context.Context) error {
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.elsewhere))
	clear(h.elsewhere)
	h.mu.Unlock()
	undelivered, err := instancedb.New(h.store).UndeliveredClaims(ctx, ids)
	if err != nil {
		return err
	}
	if len(undelivered) > 0 {
		h.hints.Claimed()
	}
	return nil
}

// deliver wakes those whose workspace is claimed without their knowing.
func (h *hub) deliver(ctx context.Context) error {
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.waiting))
	h.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	undelivered, err := instancedb.New(h.store).UndeliveredClaims(ctx, ids)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range undelivered {
		h.wakeUp(id)
	}
	return nil
}

// wakeUp says whether anybody waits for the workspace. The caller locks.
func (h *hub) wakeUp(id uuid.UUID) bool {
	for bell := range h.waiting[id] {
		bell.Ring()
	}
	return len(h.waiting[id]) > 0
}

// enter begins to wait; leave ends it.
func (h *hub) enter(id uuid.UUID) (woken <-chan struct{}, leave func()) {
	bell := hints.NewBell()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[id] == nil {
		h.waiting[id] = map[hints.Bell]struct{}{}
	}
	h.waiting[id][bell] = struct{}{}
	return bell, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting[id], bell)
		if len(h.waiting[id]) == 0 {
			delete(h.waiting, id)
		}
	}
}

// Await returns when the workspace is held by another claim than the one that is known, when the wait is over, or when
// the replica stops. The token is checked again each time the workspace is looked at.
func (s *Service) Await(ctx context.Context, i Instance, known uuid.UUID) (Instance, error) {
	woken, leave := s.enter(i.WorkspaceID)
	defer leave()
	timer := s.Clock.NewTimer(eventsWait, "instance", "events")
	defer timer.Stop()
	for {
		now, err := s.look(ctx, i.Bearer) // after enter: a claim before it is seen here, one after it wakes
		if err != nil || now.claimOf() != known {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-timer.C:
			return now, nil
		case <-s.done:
			return now, nil
		case <-woken:
		}
	}
}
