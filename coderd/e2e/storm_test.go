package e2e_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// storm is what people do to a pool, all at once and on all replicas. What is done in a round is drawn from the seed;
// in which order the replicas get to it is up to them.
type storm struct {
	t       *testing.T
	servers []*e2etest.Server
	store   *database.Store
	dice    *rand.Rand
	config  *config
	// steady leaves the configuration alone, and lets nobody wait.
	steady bool

	mu      sync.Mutex
	held    []uuid.UUID        // claimed and not yet released
	removed map[uuid.UUID]bool // deleted by a person
	tally   tally
}

// tally counts what clients were told.
type tally struct{ hits, waited, misses, released, deleted, applies, nudges int }

func (s *storm) client() *sdk.Client { return s.servers[s.dice.IntN(len(s.servers))].Client }

// round does a handful of things at once and returns when all have been answered.
func (s *storm) round(ctx context.Context) {
	acts := []func(){s.nudges(ctx), s.releases(ctx)}
	for range 2 + s.dice.IntN(4) {
		switch n := s.dice.IntN(10); {
		case n < 6:
			acts = append(acts, s.claims(ctx, s.dice.IntN(6)))
		case n < 8:
			acts = append(acts, s.remove(ctx))
		default:
			acts = append(acts, s.nudges(ctx))
		}
	}
	if !s.steady && s.dice.IntN(3) > 0 {
		acts = append(acts, s.change(ctx))
	}
	together(acts)
}

// together runs all at once and waits for them.
func together(acts []func()) {
	var running sync.WaitGroup
	for _, act := range acts {
		running.Go(act)
	}
	running.Wait()
}

// claims takes n workspaces of one preset at once, each on some replica, with and without waiting.
func (s *storm) claims(ctx context.Context, n int) func() {
	template, preset := s.config.pick(s.dice)
	var acts []func()
	for range n {
		client, req := s.client(), sdk.ClaimRequest{Template: template, Preset: preset, Mode: "require"}
		if !s.steady && s.dice.IntN(2) == 0 {
			wait := time.Duration(50+s.dice.IntN(600)) * time.Millisecond
			req.Mode, req.Wait = "prefer", wait.String()
		}
		acts = append(acts, func() { s.claim(ctx, client, req) })
	}
	return func() { together(acts) }
}

func (s *storm) claim(ctx context.Context, client *sdk.Client, req sdk.ClaimRequest) {
	claim, err := client.Claim(ctx, req)
	if sdk.StatusOf(err) == http.StatusNotFound && !s.steady {
		return // the preset was removed a moment ago
	}
	if !assert.NoError(s.t, err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch claim.Outcome {
	case "miss":
		s.tally.misses++
		assert.NotEmpty(s.t, claim.Reason)
		return
	case "hit":
		s.tally.hits++
	case "waited":
		s.tally.waited++
	}
	if assert.NotNil(s.t, claim.WorkspaceID) {
		s.held = append(s.held, *claim.WorkspaceID)
	}
}

// releases gives back about half of what is held.
func (s *storm) releases(ctx context.Context) func() {
	var acts []func()
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []uuid.UUID
	for _, id := range s.held {
		if s.dice.IntN(2) == 0 {
			kept = append(kept, id)
			continue
		}
		client := s.client()
		acts = append(acts, func() { s.release(ctx, client, id) })
	}
	s.held = kept
	return func() { together(acts) }
}

func (s *storm) release(ctx context.Context, client *sdk.Client, id uuid.UUID) {
	_, err := client.ReleaseWorkspace(ctx, id.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if sdk.StatusOf(err) == http.StatusConflict && s.removed[id] {
		return // claimed at the moment at which somebody deleted it
	}
	assert.NoError(s.t, err, "release what a client was told is its own")
	s.tally.released++
}

// nudges sends a burst of them to every replica.
func (s *storm) nudges(ctx context.Context) func() {
	template, preset := s.config.pick(s.dice)
	burst := 1 + s.dice.IntN(8)
	var acts []func()
	for _, server := range s.servers {
		for range burst {
			acts = append(acts, func() {
				err := server.Client.NudgePreset(ctx, template, preset)
				if sdk.StatusOf(err) != http.StatusNotFound || s.steady {
					assert.NoError(s.t, err)
				}
			})
		}
	}
	s.tally.nudges += len(acts)
	return func() { together(acts) }
}

// remove is a person's deletion of a prebuild, which must be replaced.
func (s *storm) remove(ctx context.Context) func() {
	template, preset := s.config.pick(s.dice)
	client := s.client()
	return func() {
		list, err := client.Workspaces(ctx, sdk.WorkspaceFilter{Template: template, Preset: preset, State: "ready", Limit: 1})
		if !assert.NoError(s.t, err) || len(list.Workspaces) == 0 {
			return
		}
		w, err := client.DeleteWorkspace(ctx, list.Workspaces[0].ID.String(), false)
		if status := sdk.StatusOf(err); status == http.StatusConflict || status == http.StatusNotFound {
			return // it is already going
		}
		if !assert.NoError(s.t, err) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tally.deleted++
		s.removed[w.ID] = true
	}
}

// change applies another version, another number of instances, or another set of presets; or retires a template, or
// brings it back.
func (s *storm) change(ctx context.Context) func() {
	client := s.client()
	s.tally.applies++
	if s.dice.IntN(8) == 0 {
		name, deprecate := s.config.toggle(s.dice)
		return func() {
			if deprecate {
				assert.NoError(s.t, client.DeprecateTemplate(ctx, name))
			} else {
				assert.NoError(s.t, client.UndeprecateTemplate(ctx, name))
			}
		}
	}
	document := s.config.mutate(s.dice)
	return func() {
		_, err := client.Apply(ctx, sdk.ApplyRequest{Document: document, File: "storm.yaml"})
		assert.NoError(s.t, err, document)
	}
}

// calm ends the storm: everything claimed is released, and the configuration is one in which nothing expires and, unless
// it is to stay, nothing fails.
func (s *storm) calm(ctx context.Context) {
	for _, id := range s.held {
		s.release(ctx, s.client(), id)
	}
	s.held = nil
	for _, t := range s.config.templates {
		if t.deprecated {
			require.NoError(s.t, s.client().UndeprecateTemplate(ctx, t.name))
		}
	}
	document := s.config.calm(!s.steady)
	_, err := s.client().Apply(ctx, sdk.ApplyRequest{Document: document, File: "calm.yaml"})
	require.NoError(s.t, err, document)
}

// converged waits until every preset has what is desired, and nothing else is left or under way (I6), also nothing of a
// preset that was removed: no list of presets has that one any more, nor does the one that came back under its name.
func (s *storm) converged(ctx context.Context) {
	s.t.Helper()
	var last []sdk.Preset
	ok := assert.Eventually(s.t, func() bool {
		presets, err := s.client().Presets(ctx)
		if err != nil {
			return false
		}
		last = presets
		for _, p := range presets {
			n := p.Counts
			if n.Eligible != n.Desired || n.Actual != n.Desired ||
				n.Starting+n.Stopping+n.Deleting+n.Outdated+n.Expired+n.Waiting+n.Claimed != 0 {
				return false
			}
		}
		var live int
		if err := s.store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state <> 'deleted'").Scan(&live); err != nil {
			return false
		}
		return len(presets) == s.config.pools() && live == s.config.desired()
	}, 2*time.Minute, 50*time.Millisecond)
	if !ok {
		s.t.Fatalf("I6: the presets did not converge, or something of a removed one is left: %+v", last)
	}
}
