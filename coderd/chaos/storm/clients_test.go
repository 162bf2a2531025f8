package storm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/judge"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	claimEvery  = 160 * time.Millisecond // 6 a second, whatever the answers
	holdMost    = 5 * time.Second
	keptForGood = 4               // claims that nobody gives back
	underWay    = 300             // at a time: 45 s without any answer; what a machine can't bear shows nothing but itself
	askFor      = 4 * time.Second // before another replica is asked
)

// clients claim and release through all replicas as through a load balancer: who gets no answer asks the next one, with
// the same key, until there is an answer.
type clients struct {
	t       testing.TB
	doors   []*sdk.Client
	presets []string

	mu      sync.Mutex
	records []*judge.Claim
	odd     map[string]string // answers that nobody should get, and when
	asked   atomic.Int64      // requests
	going   atomic.Int64      // clients under way
	turned  int               // claims that were not asked for, as too many clients were under way
	running sync.WaitGroup
}

func newClients(t testing.TB, replicas []*replica, presets ...string) *clients {
	t.Helper()
	c := &clients{t: t, presets: presets, odd: map[string]string{}}
	for _, r := range replicas {
		door, err := sdk.New("http://"+r.toIt.address, replicas[0].server.Client.Token)
		require.NoError(t, err)
		// A connection each: one that is dead without a word must hold up nobody else.
		door.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * askFor}
		c.doors = append(c.doors, door)
	}
	return c
}

// run begins a claim at a time of its own each, until ctx ends; and then waits until all are answered. It waits for no
// answer before it asks for the next, but turns away who comes while far too many are under way.
func (c *clients) run(ctx context.Context, r *rand.Rand) {
	ticker := time.NewTicker(claimEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		req := sdk.ClaimRequest{
			Template: "chaos", Preset: c.presets[r.IntN(len(c.presets))], Key: fmt.Sprintf("claim-%d", n), Mode: "require",
		}
		if r.IntN(2) == 0 {
			req.Mode, req.Wait = "prefer", "2s"
		}
		hold, door, twice := time.Duration(r.Int64N(int64(holdMost))), r.IntN(len(c.doors)), r.IntN(10) == 0
		kept := n < keptForGood
		if c.going.Load() < underWay {
			record := &judge.Claim{Key: req.Key, Asked: time.Now()}
			c.mu.Lock()
			c.records = append(c.records, record)
			c.mu.Unlock()
			c.going.Add(1)
			c.running.Go(func() {
				defer c.going.Add(-1)
				c.visit(ctx, record, req, door, hold, kept, twice)
			})
		} else {
			c.turned++
		}
		select {
		case <-ctx.Done():
			c.running.Wait()
			return
		case <-ticker.C:
		}
	}
}

// visit is one client's: it claims, holds, and releases.
func (c *clients) visit(
	ctx context.Context, record *judge.Claim, req sdk.ClaimRequest, door int, hold time.Duration, kept, twice bool,
) {
	for again := true; again; again, twice = twice, false {
		ok := c.ask(door, func(ctx context.Context, client *sdk.Client) error {
			claim, err := client.Claim(ctx, req)
			if err == nil {
				c.note(record, claim)
			}
			return err
		})
		if !ok {
			return
		}
	}
	if len(record.Workspaces) == 0 || kept {
		return
	}
	rest(ctx, hold)
	record.ReleaseAsked = time.Now()
	first := true
	released := c.ask(door+1, func(ctx context.Context, client *sdk.Client) error {
		_, err := client.ReleaseWorkspace(ctx, record.Workspaces[0].String())
		if sdk.StatusOf(err) == http.StatusConflict && !first {
			return nil // the answer to an earlier request was lost: it is released
		}
		first = false
		return err
	})
	if released {
		record.ReleaseAnswered = time.Now()
	}
}

func (*clients) note(record *judge.Claim, claim sdk.Claim) {
	if record.Answered.IsZero() {
		record.Answered = time.Now()
	}
	if claim.WorkspaceID != nil {
		record.ClaimID = claim.ClaimID
		record.Workspaces = append(record.Workspaces, *claim.WorkspaceID)
	} else if len(record.Workspaces) > 0 {
		record.Workspaces = append(record.Workspaces, uuid.Nil) // a miss, where there was a workspace before
	}
}

// ask asks one replica after the other until one answers. False: none did for as long as anybody would wait.
func (c *clients) ask(door int, call func(context.Context, *sdk.Client) error) bool {
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); door++ {
		c.asked.Add(1)
		ctx, cancel := context.WithTimeout(context.Background(), askFor)
		err := call(ctx, c.doors[door%len(c.doors)])
		cancel()
		if err == nil {
			return true
		}
		if status := sdk.StatusOf(err); status != 0 && status != http.StatusServiceUnavailable {
			c.mu.Lock()
			c.odd[err.Error()] = time.Now().Format(time.RFC3339Nano)
			c.mu.Unlock()
		}
		rest(context.Background(), poll)
	}
	return false
}
