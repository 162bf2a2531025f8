package engine_test

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/userstest"
)

// amiss says what is not as it should be yet: the pools, what is left, the breaker, and that people are told of claimed
// workspaces whose container is gone.
func (a *acts) amiss() string {
	a.t.Helper()
	if b := a.breaker(); b != nil {
		return "the breaker is open: " + b.Reason
	}
	if why := a.in.unsettled(a.removed, a.strays); why != "" {
		return why
	}
	told := map[string]bool{}
	for _, e := range a.in.audit("workspace.missing") {
		told[e.TargetID] = true
	}
	for _, r := range a.in.rows() {
		if r.State == "claimed" && a.removed[r.ProviderID] && !told[r.ID.String()] {
			return fmt.Sprintf("nobody was told that %s is claimed and missing", r.Name)
		}
	}
	return ""
}

// verify holds what there is at the end against what the users and the test itself know.
func (a *acts) verify(all []*userstest.User) {
	a.t.Helper()
	ctx := context.Background()
	for _, f := range a.foreign {
		assert.Equal(a.t, f, a.look(f.ID), "a foreign container was touched")
	}
	states, recorded := map[string]string{}, map[string]bool{}
	for _, r := range a.in.rows() {
		states[r.ID.String()], recorded[r.ProviderID] = r.State, true
	}
	ends := map[string]int{}
	for id, kind := range a.strays {
		is, err := a.in.engine.Client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		switch {
		case err != nil:
			ends[kind+", deleted"]++
		case recorded[id]: // made anew while its create was under way, which found it by name and tags
			ends[kind+", taken for what it claims to be"]++
			assert.Equal(a.t, "made anew", kind)
		default: // left alone as long as the workspace is there in whose place it was made
			ends[kind+", left alone"]++
			assert.NotEqual(a.t, "stray", kind, "it is still there")
			assert.Contains(a.t, []string{"claimed", "quarantined"}, states[is.Container.Config.Labels[labelWorkspace]], kind)
		}
	}

	alarms := map[string]bool{}
	for _, e := range a.in.audit("workspace.missing") {
		alarms[e.TargetID] = true
	}
	holds, gone := 0, 0
	for _, u := range all {
		for _, h := range u.Holds {
			holds++
			w, err := a.in.client().Workspace(ctx, h.ID.String())
			require.NoError(a.t, err)
			assert.Equal(a.t, "claimed", w.State, "workspace %s, which its user holds", h.Name)
			assert.Equal(a.t, &h.Claim, w.ClaimID)
			_, err = a.in.engine.Client.ContainerInspect(ctx, h.ProviderID, client.ContainerInspectOptions{})
			if a.removed[h.ProviderID] {
				gone++
				assert.True(a.t, alarms[h.ID.String()], "an alarm says that %s is missing", h.Name)
			} else {
				assert.NoError(a.t, err, "the container of %s, which its user holds", h.Name)
			}
		}
		for id := range u.Released {
			w, err := a.in.client().Workspace(ctx, id.String())
			require.NoError(a.t, err)
			assert.Equal(a.t, "deleted", w.State, "workspace %s, which its user released", w.Name)
		}
	}
	userstest.Exact(a.t, a.in.number)

	opened, closed := a.in.audit("provider.breaker-open"), a.in.audit("provider.breaker-close")
	assert.NotEmpty(a.t, opened, "the breaker opened")
	assert.Len(a.t, closed, len(opened), "and closed as often")
	assert.Empty(a.t, a.in.audit("provider.resume"), "no person closed it")
	for i := range min(len(opened), len(closed)) {
		a.t.Logf("the breaker was open for %.1f s: %s", closed[i].At.Sub(opened[i].At).Seconds(), opened[i].Reason)
	}
	assert.Positive(a.t, a.tally.HitsAway.Load(), "claims go on while the engine is away")
	assert.Positive(a.t, a.tally.Releases.Load(), "nobody released anything")
	a.t.Logf("%d acts; %d claims (%d of them while the engine was away), %d misses, %d releases; %d held at the end, of which %d "+
		"have no container any more; %d workspaces made; %d orphans deleted; %d foreign containers untouched; with our tags, and "+
		"not ours: %v",
		len(a.deeds), a.tally.Hits.Load(), a.tally.HitsAway.Load(), a.tally.Misses.Load(), a.tally.Releases.Load(), holds, gone,
		len(a.in.rows()), len(a.in.audit("provider.delete-orphan")), len(a.foreign), ends)
}
