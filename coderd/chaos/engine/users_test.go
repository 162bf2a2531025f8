package engine_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// most is how many workspaces a user holds at once, and kept how many of these for good.
const most, kept = 5, 3

// held is what a user was told of a workspace.
type held struct {
	claim, id        uuid.UUID
	name, providerID string
}

// user claims and releases at a bounded rate, and remembers what is theirs.
type user struct {
	t      *testing.T
	client *sdk.Client
	random *rand.Rand
	tally  *tally

	holds    []held
	released map[uuid.UUID]bool
}

// tally counts what users were answered.
type tally struct {
	hits, misses, releases atomic.Int64
	hold                   atomic.Bool  // nobody claims or releases
	away                   atomic.Bool  // the engine is
	hitsAway               atomic.Int64 // of the hits, those while the engine was away
}

// users run until stop, which waits for the last answer.
func users(t *testing.T, clients []*sdk.Client, r *rand.Rand, every time.Duration) (all []*user, counted *tally, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	counted = &tally{}
	var running sync.WaitGroup
	for i, c := range clients {
		u := &user{
			t: t, client: c, random: rand.New(rand.NewPCG(r.Uint64(), uint64(i))), tally: counted,
			released: map[uuid.UUID]bool{},
		}
		all = append(all, u)
		running.Go(func() {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					u.visit()
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return all, counted, stop
}

func (u *user) visit() {
	switch n := len(u.holds); {
	case u.tally.hold.Load():
	case n < kept || n < most && u.random.IntN(2) == 0:
		u.claim()
	case n > kept:
		u.release(kept + u.random.IntN(n-kept))
	}
}

func (u *user) claim() {
	preset := "running"
	if u.random.IntN(3) == 0 {
		preset = "parked"
	}
	got, err := u.client.Claim(context.Background(), sdk.ClaimRequest{Template: "guests", Preset: preset, Mode: "require"})
	switch {
	case err != nil:
		u.t.Errorf("claim: %v", err)
	case got.WorkspaceID == nil:
		u.tally.misses.Add(1)
	default:
		u.tally.hits.Add(1)
		if u.tally.away.Load() {
			u.tally.hitsAway.Add(1)
		}
		u.holds = append(u.holds, held{got.ClaimID, *got.WorkspaceID, got.Name, got.ProviderID})
	}
}

func (u *user) release(i int) {
	h := u.holds[i]
	if _, err := u.client.ReleaseWorkspace(context.Background(), h.id.String()); err != nil {
		u.t.Errorf("release %s: %v", h.name, err)
	}
	u.tally.releases.Add(1)
	u.holds = append(u.holds[:i], u.holds[i+1:]...)
	u.released[h.id] = true
}
