package inventory_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// talker is a cloud that reports trouble, shows claims, and takes workspaces away.
type talker struct {
	moody
	told chan func(uuid.UUID) // one for each observation

	mu    sync.Mutex
	taken map[string]string // why, by name
	marks map[string]provider.Claim
}

func (c *talker) Observe(ctx context.Context, _ uuid.UUID, trouble func(uuid.UUID)) error {
	c.told <- trouble
	<-ctx.Done()
	return ctx.Err()
}

func (c *talker) Mark(_ context.Context, ref provider.Ref, claim provider.Claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks[ref.Name] = claim
	return nil
}

func (c *talker) take(name, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken[name] = why
}

func (c *talker) mark(name string) (provider.Claim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	claim, marked := c.marks[name]
	return claim, marked
}

func (c *talker) seen(i provider.Instance) provider.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why, ok := c.taken[i.Name]; ok {
		i.Status, i.Fault, i.Lost = provider.StatusError, why, true
	}
	_, i.Marked = c.marks[i.Name]
	return i
}

func (c *talker) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	i, err := c.moody.Get(ctx, ref)
	return c.seen(i), err
}

func (c *talker) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	all, err := c.moody.List(ctx, installation)
	for i := range all {
		all[i] = c.seen(all[i])
	}
	return all, err
}

// talking is a replica at such a cloud.
func talking(t *testing.T) (*talker, *bench) {
	t.Helper()
	c := &talker{told: make(chan func(uuid.UUID), 1), taken: map[string]string{}, marks: map[string]provider.Claim{}}
	b := &bench{t: t, cloud: &c.moody}
	b.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		c.Provider = p.(*sim.Provider)
		return c
	})
	b.replica = b.Start(t, coderdtest.Config{})
	return c, b
}

// The server looks at a workspace that a provider reports. An unclaimed one that is taken away, or gone, is replaced without an
// inventory, and one that is well stays. A claimed one stays claimed, and its fault says why it went, also when it is gone.
func TestTrouble(t *testing.T) {
	t.Parallel()
	c, b := talking(t)
	b.warm(3)
	claimed, err := b.World.Claim(t, b.replica, "t", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "refilled", func() bool { return b.Warm(t, "t") == 3 })
	// No inventory acts on what is unclaimed: it would want to see it twice.
	b.exec("UPDATE providers SET inventory_every_s = 3600")

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	service := b.service(b.Installation)
	running.Go(func() { service.Run(ctx) })
	defer running.Wait()
	defer cancel()
	tell := <-c.told
	idOf := func(name string) uuid.UUID {
		return uuid.MustParse(b.one("SELECT id::text FROM workspaces WHERE name = $1", name))
	}
	stateOf := func(name string) string { return b.one("SELECT state::text FROM workspaces WHERE name = $1", name) }
	evicted := b.one("SELECT name FROM workspaces WHERE state = 'ready' ORDER BY id LIMIT 1")
	well := b.one("SELECT name FROM workspaces WHERE state = 'ready' ORDER BY id DESC LIMIT 1")
	c.take(evicted, "evicted: drain")
	tell(idOf(evicted))
	tell(idOf(well))
	tell(uuid.New()) // no row has it
	require.NotEqual(t, "ready", stateOf(evicted))
	require.Equal(t, "ready", stateOf(well))
	require.Contains(t, b.one("SELECT reason FROM workspace_history WHERE workspace_id = $1 AND to_state = 'draining'", idOf(evicted)),
		"G4: the provider reports an error: evicted: drain")
	gone := b.vanish("ready")
	tell(idOf(gone))
	require.Equal(t, "quarantined", stateOf(gone))
	coderdtest.Eventually(t, "both are replaced", func() bool { return b.Warm(t, "t") == 3 })

	// An inventory finds what no mark was written for, since another replica claimed it.
	coderdtest.Eventually(t, "the claim is shown", func() bool {
		_, marked := c.mark(claimed.Workspace.Name)
		return marked
	})
	shown, _ := c.mark(claimed.Workspace.Name)
	require.Equal(t, claimed.ClaimID, shown.ID)
	require.NotEmpty(t, shown.Owner)

	c.take(claimed.Workspace.Name, "evicted: drain")
	tell(claimed.Workspace.ID)
	fault := func() string {
		return b.one(`SELECT coalesce((SELECT f.detail FROM inventory_findings f
			WHERE f.subject = $1 AND f.verdict = 'claimed-missing' AND f.told_at IS NOT NULL), '')`, claimed.Workspace.ID.String())
	}
	coderdtest.Eventually(t, "the fault says why", func() bool { return fault() == "the provider takes it away: evicted: drain" })
	require.NoError(t, c.Provider.Delete(ctx, provider.Ref{Name: claimed.Workspace.Name}))
	for range 2 {
		coderdtest.Eventually(t, "an inventory that the service's own does not hold up", func() bool {
			res, err := b.service(b.Installation).Pass(ctx, "sim")
			return err == nil && !res.Held
		})
	}
	require.Equal(t, "the provider takes it away: evicted: drain", fault(), "why it went")
	require.Equal(t, "claimed", stateOf(claimed.Workspace.Name))
	require.Equal(t, "1", b.one("SELECT count(*)::text FROM audit_log WHERE action = 'workspace.missing'"))
	require.Equal(t, claimed.ClaimID.String(), b.one("SELECT claim_id::text FROM lost_claims"), "its user is served first")
}

// A mass is left to inventories, and to their breaker. It is so large that no inventory under way can split it: of what hints
// have not replaced, one with fewer than ten new ones leaves far more than ten to the next.
func TestTrouble_mass(t *testing.T) {
	t.Parallel()
	const mass = 40
	c, b := talking(t)
	b.warm(mass)
	b.exec("UPDATE providers SET inventory_every_s = 3600")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	service := b.service(b.Installation)
	running.Go(func() { service.Run(ctx) })
	defer running.Wait()
	defer cancel()
	tell := <-c.told
	rows, err := b.Store.Pool.Query(ctx, "SELECT id, name FROM workspaces WHERE state = 'ready'")
	require.NoError(t, err)
	names := map[uuid.UUID]string{}
	for rows.Next() {
		var id uuid.UUID
		var name string
		require.NoError(t, rows.Scan(&id, &name))
		names[id] = name
	}
	require.NoError(t, rows.Err())
	for _, name := range names {
		c.take(name, "taken away")
	}
	for id := range names {
		tell(id)
	}
	coderdtest.Eventually(t, "the breaker opens", func() bool {
		return b.one("SELECT count(*)::text FROM audit_log WHERE action = 'provider.breaker-open'") != "0"
	})
	// Later it closes: what several inventories agree on is taken for true.
	drained, err := strconv.Atoi(b.one(`SELECT count(DISTINCT workspace_id)::text FROM workspace_history
		WHERE to_state = 'draining' AND reason LIKE 'G4: %'
		  AND at < (SELECT min(at) FROM audit_log WHERE action = 'provider.breaker-open')`))
	require.NoError(t, err)
	require.Less(t, drained, mass)
}
