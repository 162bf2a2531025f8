package kubernetes_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// The cluster is put back to a backup of etcd: pods that were deleted since are there again, and those that were made since are gone.
// What is left of a release is deleted, what a pool lacks is made, a claimed workspace that was there before shows its claim again, and
// one that came after stays claimed, with a fault. It runs alone, as all tests share the cluster.
func TestRestored(t *testing.T) {
	p := newPlace(t)
	server := p.serverOf(dbtest.URL(t))
	c, ctx := server.Client, t.Context()
	apply(t, c, p.document(p.config.Kubeconfig, fmt.Sprintf(plain, 3), "    inventory_every: 10s\n"))
	_, err := c.ConfirmProvider(ctx, "cluster")
	require.NoError(t, err)
	p.isFull(c, 3)
	shows := func(name string) string { return p.field(name, `.metadata.labels.prewarm\.dev/claim`) }
	kept, ended := claimOf(t, c, "plain"), claimOf(t, c, "plain")
	p.eventually("both show their claims", func() bool { return shows(kept.Name) != "" && shows(ended.Name) != "" })
	before := p.isFull(c, 3, kept.Name, ended.Name)
	uid := func(name string) string { return p.kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}") }
	was := uid(kept.Name)

	p.cluster.Snapshot(t)
	_, err = c.ReleaseWorkspace(ctx, ended.Name)
	require.NoError(t, err)
	p.eventually("its pod is gone", func() bool { return !slices.Contains(p.pods(), ended.Name) })
	claims := []string{claimOf(t, c, "plain").Name, claimOf(t, c, "plain").Name, claimOf(t, c, "plain").Name} // the last three of before
	require.ElementsMatch(t, before, claims)
	p.isFull(c, 3, append(claims, kept.Name)...)
	late := claimOf(t, c, "plain")
	p.eventually("all show their claims", func() bool { return shows(late.Name) != "" && shows(claims[0]) != "" })
	p.isFull(c, 3, append(claims, kept.Name, late.Name)...)

	p.cluster.Restore(t)
	require.Contains(t, p.pods(), ended.Name)
	require.NotContains(t, p.pods(), late.Name)
	require.Empty(t, shows(claims[0]))
	resumed := false
	p.eventually("the pool is full again", func() bool {
		all, err := c.Inventories(ctx, "cluster")
		require.NoError(t, err)
		if all[0].Breaker != nil && !resumed { // a person has looked
			_, err := c.ResumeProvider(ctx, "cluster")
			require.NoError(t, err)
			resumed = true
		}
		return sameNames(p.pods(), append(named(t, c, "ready"), append(claims, kept.Name)...)) && len(named(t, c, "ready")) == 3
	})
	t.Logf("the breaker opened: %t", resumed)
	p.keepsFault(c, late, "no longer has it")
	require.Equal(t, was, uid(kept.Name))
	for _, name := range append(claims, kept.Name) {
		p.eventually("it shows its claim again", func() bool { return shows(name) != "" })
		w, err := c.Workspace(ctx, name)
		require.NoError(t, err)
		require.Equal(t, "claimed", w.State)
		require.Empty(t, w.Fault)
	}
}
