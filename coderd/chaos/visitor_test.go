package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	mostHeld    = 3 // workspaces a visitor holds at once
	kept        = 1 // of these, for good
	visitEvery  = 40 * time.Millisecond
	callTimeout = 20 * time.Second
)

// held is a workspace as the visitor who claimed it remembers it.
type held struct {
	key         string
	claim, id   uuid.UUID
	name, home  string
	processes   workspaceState
	mark        string // what the visitor wrote into it
	releasedAck bool
}

// visitor claims and releases without end, and keeps records of its own: what it was told is what must be so. It asks
// again, with the same key, until it has an answer.
type visitor struct {
	t       *testing.T
	name    string
	client  *sdk.Client
	presets []string
	random  *rand.Rand

	holds    []*held // claimed, in its records
	released []*held
	misses   int
	again    int // requests without an answer, sent again
}

// visitors run until stop, which waits until each has the answer to what it asked last.
func visitors(t *testing.T, n int, r *rand.Rand, client *sdk.Client, presets ...string) (all []*visitor, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range n {
		v := &visitor{
			t: t, name: fmt.Sprintf("visitor-%d", i), client: client, presets: presets,
			random: rand.New(rand.NewPCG(r.Uint64(), uint64(i))),
		}
		all = append(all, v)
		running.Go(func() { v.run(ctx) })
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return all, stop
}

func (v *visitor) run(ctx context.Context) {
	ticker := time.NewTicker(visitEvery)
	defer ticker.Stop()
	for visit := 0; ; visit++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		switch n := len(v.holds); {
		case v.t.Failed():
			return
		case n < kept || n < mostHeld && v.random.IntN(2) == 0:
			v.claimOne(fmt.Sprintf("%s-%d", v.name, visit))
		case n > kept:
			v.releaseOne(kept + v.random.IntN(n-kept))
		}
	}
}

func (v *visitor) claimOne(key string) {
	req := sdk.ClaimRequest{
		Template: "chaos", Preset: v.presets[v.random.IntN(len(v.presets))], Key: key, Mode: "require",
	}
	if v.random.IntN(3) == 0 {
		req.Mode, req.Wait = "prefer", "1s"
	}
	var claim sdk.Claim
	answered := v.ask("claim with key "+key, func(ctx context.Context, _ bool) (err error) {
		claim, err = v.client.Claim(ctx, req)
		return err
	})
	switch {
	case !answered:
	case claim.WorkspaceID == nil:
		v.misses++
	default:
		v.moveIn(key, claim)
	}
}

// moveIn notes what was claimed: its processes, and a mark that it leaves in the home.
func (v *visitor) moveIn(key string, claim sdk.Claim) {
	h := &held{
		key: key, claim: claim.ClaimID, id: *claim.WorkspaceID, name: claim.Name,
		home: claim.Environment["PREWARM_DIR"], mark: claim.ClaimID.String(),
	}
	v.holds = append(v.holds, h)
	var err error
	h.processes, err = stateOf(h.home)
	if !assert.NoError(v.t, err, "look at claimed workspace %s", h.name) {
		return
	}
	assert.Equal(v.t, "running", h.processes.Phase, "claimed workspace %s", h.name)
	assert.NoError(v.t, os.WriteFile(filepath.Join(h.home, "mark"), []byte(h.mark), 0o600))
	h.check(v.t)
}

// check says whether the workspace is as its visitor left it.
func (h *held) check(t *testing.T) {
	assert.True(t, h.processes.Main.alive(), "command of claimed workspace %s runs on", h.name)
	assert.True(t, h.processes.Supervisor.alive(), "supervisor of claimed workspace %s runs on", h.name)
	now, err := stateOf(h.home)
	assert.NoError(t, err)
	assert.Equal(t, h.processes, now, "state of claimed workspace %s", h.name)
	mark, err := os.ReadFile(filepath.Join(h.home, "mark"))
	assert.NoError(t, err)
	assert.Equal(t, h.mark, string(mark), "mark in claimed workspace %s", h.name)
}

func (v *visitor) releaseOne(i int) {
	h := v.holds[i]
	h.check(v.t)
	h.releasedAck = v.ask("release "+h.name, func(ctx context.Context, asked bool) error {
		_, err := v.client.ReleaseWorkspace(ctx, h.id.String())
		if asked && sdk.StatusOf(err) == http.StatusConflict {
			return nil // the answer to an earlier request was lost: it is released
		}
		return err
	})
	v.holds = append(v.holds[:i], v.holds[i+1:]...)
	v.released = append(v.released, h)
}

// ask calls until there is an answer. A server that is away, or whose database is, gives none; any other error is one
// that nobody should get.
func (v *visitor) ask(what string, call func(ctx context.Context, asked bool) error) bool {
	ticker := time.NewTicker(visitEvery)
	defer ticker.Stop()
	for deadline, asked := time.Now().Add(patience), false; time.Now().Before(deadline); asked = true {
		if v.t.Failed() {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		err := call(ctx, asked)
		cancel()
		if err == nil {
			return true
		}
		if status := sdk.StatusOf(err); status != 0 && status != http.StatusServiceUnavailable {
			v.t.Errorf("%s: %v", what, err)
			return false
		}
		v.again++
		<-ticker.C
	}
	v.t.Errorf("%s: no answer within %s", what, patience)
	return false
}
