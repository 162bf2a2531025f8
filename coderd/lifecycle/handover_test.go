package lifecycle_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
)

// stepped is a clock on which the timers with these tags, and the time read with them, move as the test says. The rest is real.
type stepped struct {
	quartz.Clock
	mock *quartz.Mock
	tags []string
}

func (c *stepped) of(tags []string) quartz.Clock {
	if slices.Equal(tags, c.tags) {
		return c.mock
	}
	return c.Clock
}

func (c *stepped) NewTimer(d time.Duration, tags ...string) *quartz.Timer {
	return c.of(tags).NewTimer(d, tags...)
}

func (c *stepped) Now(tags ...string) time.Time { return c.of(tags).Now(tags...) }

func newStepped(t *testing.T, tags ...string) (*stepped, *quartz.Trap) {
	t.Helper()
	c := &stepped{Clock: quartz.NewReal(), mock: quartz.NewMock(t), tags: tags}
	return c, c.mock.Trap().NewTimer(tags...)
}

// paused waits until a timer is made, and lets it be: what came before it is over then.
func paused(t *testing.T, trap *quartz.Trap) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	trap.MustWait(ctx).MustRelease(ctx)
}

// owned is a cloud that hands workspaces over to their owners. Its answer says whose a workspace is.
type owned struct {
	provider.Provider
	mu      sync.Mutex
	refuses error // each handover
	seen    []provider.HandoverRequest
}

// Validate is here since the cloud below knows nothing of handovers.
func (*owned) Validate(json.RawMessage, map[string]string) []provider.Problem { return nil }

func (p *owned) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	req.Spec = nil
	return p.Provider.Create(ctx, req)
}

func (p *owned) HandOver(ctx context.Context, req provider.HandoverRequest) (provider.Instance, error) {
	p.mu.Lock()
	p.seen = append(p.seen, req)
	refuses := p.refuses
	p.mu.Unlock()
	if refuses != nil {
		return provider.Instance{}, refuses
	}
	inst, err := p.Get(ctx, req.Ref)
	inst.Addresses = []provider.Address{{Type: "sim", Address: "of " + req.Owner}}
	inst.Environment = map[string]string{"OWNER": req.Owner}
	return inst, err
}

func (p *owned) requests() []provider.HandoverRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// owners is a world with a pool of one that is handed over after a claim. Its replica has looked at all claimed workspaces
// before there were any. It looks again when it is notified of a claim, or when the clock moves.
type owners struct {
	*coderdtest.World
	cloud *owned
	r     *coderdtest.Replica
	clock *stepped
	looks *quartz.Trap // the end of each look
}

func newOwners(t *testing.T) *owners {
	t.Helper()
	w := &owners{cloud: &owned{}}
	w.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		w.cloud.Provider = cloud
		return w.cloud
	})
	w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {apply_on_claim: after}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)
	w.clock, w.looks = newStepped(t, "lifecycle", "handovers")
	w.r = w.Start(t, coderdtest.Config{Parts: func(p *replica.Parts) { p.Clock = w.clock }})
	t.Cleanup(w.looks.Close) // before the replica stops: a loop that is trapped would not end
	paused(t, w.looks)
	coderdtest.Eventually(t, "pool", settled(t, w.World, 1))
	return w
}

// claim claims the only workspace.
func (w *owners) claim(t *testing.T, at *coderdtest.Replica) (id, claimID uuid.UUID) {
	t.Helper()
	res, err := w.Claim(t, at, "a", claim.Request{})
	require.NoError(t, err)
	require.NotNil(t, res.Workspace, res.Reason)
	return res.Workspace.ID, res.ClaimID
}

// jobs counts the handovers in any of the states; all of them, if none is named.
func (w *owners) jobs(t *testing.T, states ...string) (n int) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), `SELECT count(*) FROM jobs
		WHERE kind = 'handover' AND (state::text = ANY ($1) OR $1 IS NULL)`, states).Scan(&n))
	return n
}

// counted stops the replica, so that it has counted all. It returns its handovers by outcome, and of how many it took the time.
func (w *owners) counted(t *testing.T) (outcomes map[string]float64, timed float64) {
	t.Helper()
	w.looks.Close()
	w.r.Stop()
	return w.r.Counted(t, "prewarm_handovers_total", "outcome"), w.r.Counted(t, "prewarm_handover_seconds")[""]
}

// handed is what a workspace has, with the reasons in its history since its claim.
type handed struct {
	state, fault, address, owner string
	claimID                      uuid.UUID
	reasons                      []string
}

func (w *owners) has(t *testing.T, id uuid.UUID) (h handed) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), `SELECT state, fault, addresses -> 0 ->> 'address',
		coalesce(environment ->> 'OWNER', ''), claim_id,
		(SELECT array_agg(reason ORDER BY id) FROM workspace_history h WHERE h.workspace_id = w.id AND h.from_state = 'claimed')
		FROM workspaces w WHERE id = $1`, id).Scan(&h.state, &h.fault, &h.address, &h.owner, &h.claimID, &h.reasons))
	return h
}

// A replica that is notified of a claim begins the handover at once, while its clock stands still. It stores the addresses and the
// environment that the provider then reports.
func TestHandover(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	id, claimID := w.claim(t, w.r)
	paused(t, w.looks)
	require.Equal(t, 1, w.jobs(t), "the replica begins it when it is notified of the claim")
	coderdtest.Eventually(t, "it is handed over", func() bool { return w.jobs(t, "done") == 1 })
	requests := w.cloud.requests()
	require.Len(t, requests, 1)
	require.Equal(t, id, requests[0].Ref.WorkspaceID)
	require.NotEmpty(t, requests[0].Ref.ProviderID)
	require.Equal(t, w.Owner, requests[0].OwnerID)
	require.Equal(t, "owner", requests[0].Owner)
	require.Equal(t, handed{
		state: "claimed", address: "of owner", owner: "owner", claimID: claimID,
		reasons: []string{"to be applied for its owner", "applied for its owner"},
	}, w.has(t, id))
	outcomes, timed := w.counted(t)
	require.Equal(t, map[string]float64{"done": 1}, outcomes)
	require.EqualValues(t, 1, timed)
}

// I2: a handover that the provider refuses for good is tried once, and the workspace gets the fault. It stays claimed, as it is.
func TestHandover_refused(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	w.cloud.mu.Lock()
	w.cloud.refuses = provider.Permanent(xerrors.New("its disk would be replaced"))
	w.cloud.mu.Unlock()
	id, claimID := w.claim(t, w.r)
	coderdtest.Eventually(t, "it is given up", func() bool { return w.jobs(t, "failed") == 1 })
	requests := w.cloud.requests()
	require.Len(t, requests, 1)
	name, h := requests[0].Ref.Name, w.has(t, id)
	fault := "apply workspace " + name + " for its owner: its disk would be replaced"
	require.Len(t, h.reasons, 2)
	require.Contains(t, h.reasons[1], fault)
	require.Equal(t, handed{state: "claimed", fault: fault, address: name, claimID: claimID, reasons: h.reasons}, h)
	outcomes, timed := w.counted(t)
	require.Equal(t, map[string]float64{"failed": 1}, outcomes)
	require.Zero(t, timed)
}

// A claim at another replica, which does no work, is found when all claimed workspaces are looked at, and not before. A wake
// without a claim looks at nothing.
func TestHandover_notNotified(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	id, _ := w.claim(t, w.Start(t, coderdtest.Config{NoPass: true, NoWork: true}))
	w.r.Worker.Claimed()
	paused(t, w.looks)
	require.Zero(t, w.jobs(t))
	w.clock.mock.AdvanceNext()
	paused(t, w.looks)
	require.Equal(t, 1, w.jobs(t))
	coderdtest.Eventually(t, "it is handed over", func() bool { return w.has(t, id).owner == "owner" })
}
