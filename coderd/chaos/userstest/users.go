// Package userstest has users who claim and release at a bounded rate while a test does something behind the server's back,
// and who remember what they were told. What there is at the end is held against that.
package userstest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// most is how many workspaces a user holds at once, and kept how many of these for good.
const most, kept = 5, 3

// Held is what a user was told of a workspace.
type Held struct {
	Claim, ID        uuid.UUID
	Name, ProviderID string
}

// User is one. What they have is read when they have stopped.
type User struct {
	Holds    []Held
	Released map[uuid.UUID]bool

	t      *testing.T
	client *sdk.Client
	random *rand.Rand
	asks   func(*rand.Rand) sdk.ClaimRequest
	tally  *Tally
}

// Tally counts what users were answered.
type Tally struct {
	Hits, Misses, Releases atomic.Int64
	Hold                   atomic.Bool  // nobody claims or releases
	Away                   atomic.Bool  // the place where workspaces are does not answer
	HitsAway               atomic.Int64 // of the hits, those while it was away
}

// Options are what users do.
type Options struct {
	Clients []*sdk.Client // a user each
	Random  *rand.Rand
	Every   time.Duration // how often each does something
	Asks    func(*rand.Rand) sdk.ClaimRequest
}

// Start has users run until stop, which waits for the last answer. A claim or release that fails fails the test.
func Start(t *testing.T, opts Options) (all []*User, counted *Tally, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	counted = &Tally{}
	var running sync.WaitGroup
	for i, c := range opts.Clients {
		u := &User{
			t: t, client: c, random: rand.New(rand.NewPCG(opts.Random.Uint64(), uint64(i))), asks: opts.Asks, tally: counted,
			Released: map[uuid.UUID]bool{},
		}
		all = append(all, u)
		running.Go(func() {
			ticker := time.NewTicker(opts.Every)
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

func (u *User) visit() {
	switch n := len(u.Holds); {
	case u.tally.Hold.Load():
	case n < kept || n < most && u.random.IntN(2) == 0:
		u.claim()
	case n > kept:
		u.release(kept + u.random.IntN(n-kept))
	}
}

func (u *User) claim() {
	got, err := u.client.Claim(context.Background(), u.asks(u.random))
	switch {
	case err != nil:
		u.t.Errorf("claim: %v", err)
	case got.WorkspaceID == nil:
		u.tally.Misses.Add(1)
	default:
		u.tally.Hits.Add(1)
		if u.tally.Away.Load() {
			u.tally.HitsAway.Add(1)
		}
		u.Holds = append(u.Holds, Held{got.ClaimID, *got.WorkspaceID, got.Name, got.ProviderID})
	}
}

func (u *User) release(i int) {
	h := u.Holds[i]
	if _, err := u.client.ReleaseWorkspace(context.Background(), h.ID.String()); err != nil {
		u.t.Errorf("release %s: %v", h.Name, err)
	}
	u.tally.Releases.Add(1)
	u.Holds = append(u.Holds[:i], u.Holds[i+1:]...)
	u.Released[h.ID] = true
}

// Exact holds I1 and I2 against the history: number is the answer of a query that counts.
func Exact(t testing.TB, number func(query string, args ...any) int) {
	t.Helper()
	assert.Zero(t, number(`SELECT count(*) FROM (SELECT FROM workspace_history WHERE to_state = 'claimed'
		AND from_state <> 'claimed' GROUP BY workspace_id, incarnation HAVING count(*) > 1) twice`), "I1: claimed twice")
	assert.Zero(t, number(`SELECT count(*) FROM workspace_history h WHERE h.from_state = 'claimed'
		AND h.to_state <> 'claimed' AND NOT EXISTS (SELECT FROM claims c WHERE c.workspace_id = h.workspace_id
		AND c.incarnation = h.incarnation AND c.state = 'released')`), "I2: a claimed workspace went without a release")
}
