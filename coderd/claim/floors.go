package claim

import (
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// scanAllEvery is how often a pool is looked at from its very beginning. A workspace can turn up below the floor: it
	// became ready in a transaction that was slow to commit, or it was locked when its turn came.
	scanAllEvery = 10 * time.Second
	maxFloors    = 10_000
)

// floors remember, for each pool, where in ready_at its ready workspaces begin. Below are the index entries of those that
// were claimed, which can't be removed while any session holds a snapshot from before, and which a claim would walk over
// one by one. A floor is a hint: it may hide a workspace for a while, but a miss is never answered by it.
type floors struct {
	clock quartz.Clock

	mu    sync.Mutex
	pools map[uuid.UUID]*floor
}

type floor struct {
	at      time.Time // zero: not known
	scanned time.Time // when the last scan without one began, by this process's clock
}

// of returns the floors to claim with.
func (f *floors) of(claims []workspaces.ClaimFor) map[uuid.UUID]time.Time {
	now := f.clock.Now("claim", "floors")
	known := make(map[uuid.UUID]time.Time, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range claims {
		id := claims[i].PresetID
		if _, done := known[id]; done {
			continue
		}
		pool := f.pools[id]
		if pool == nil {
			if len(f.pools) >= maxFloors {
				clear(f.pools)
			}
			pool = &floor{scanned: now}
			f.pools[id] = pool
		}
		if now.Sub(pool.scanned) >= scanAllEvery {
			pool.at, pool.scanned = time.Time{}, now
		}
		known[id] = pool.at
	}
	return known
}

// learn raises the floors to the first workspaces that a batch was given, and drops those under which there was too
// little.
func (f *floors) learn(claims []workspaces.ClaimFor, got []database.Workspace) {
	type tally struct {
		short int
		first time.Time
	}
	pools := make(map[uuid.UUID]tally, 1)
	for i := range claims {
		t := pools[claims[i].PresetID]
		t.short++
		pools[claims[i].PresetID] = t
	}
	for i := range got {
		w := &got[i]
		t := pools[w.PresetID]
		t.short--
		if w.ReadyAt != nil && (t.first.IsZero() || w.ReadyAt.Before(t.first)) {
			t.first = *w.ReadyAt
		}
		pools[w.PresetID] = t
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, t := range pools {
		if t.short > 0 {
			delete(f.pools, id)
		} else if pool := f.pools[id]; pool != nil {
			pool.at = t.first
		}
	}
}
