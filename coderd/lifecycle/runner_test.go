package lifecycle_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// installer is a cloud that wants to know what its instances are to be at a forge.
type installer struct {
	provider.Provider
	told atomic.Pointer[provider.Runner]
}

func (*installer) TakesRunners() {}

func (i *installer) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	i.told.Store(req.Runner)
	return i.Provider.Create(ctx, req)
}

// P5: the forge is asked before a runner is made, and one that does not answer is no failure of the create.
func TestRunnerIsToldOf(t *testing.T) {
	t.Parallel()
	cloud := &installer{}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		cloud.Provider = p
		return cloud
	})
	var asked atomic.Int32
	r := w.Start(t, coderdtest.Config{Parts: func(p *replica.Parts) {
		p.Runner = func(context.Context, uuid.UUID, int32) (*provider.Runner, error) {
			if asked.Add(1) <= 2 {
				return nil, errors.New("the forge is away")
			}
			return &provider.Runner{Group: "builders"}, nil
		}
	}})
	templates := w.Pool(t, "t", 1, 1)
	_, err := w.Store.Pool.Exec(t.Context(), "UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux}'",
		dbtest.Forge(t, w.Store, "acme", "github", "organization"))
	require.NoError(t, err)
	r.Reconciler.Nudge(templates...)
	coderdtest.Eventually(t, "it to be made", func() bool { return cloud.told.Load() != nil })
	require.Equal(t, "builders", cloud.told.Load().Group)
	var failures int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM preset_failures").Scan(&failures))
	require.Zero(t, failures)
}

// A3: a runner that was found up is waited for until its time to register is over. Then it is given up, but only when the
// forge was listed since.
func TestRunnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w, _ := newWorld(t)
	w.Pool(t, "t", 1, 1)
	entity := dbtest.Forge(t, w.Store, "acme", "github", "organization")
	_, err := w.Store.Pool.Exec(ctx, `WITH asked AS (INSERT INTO forge_status (entity_id) VALUES ($1))
		UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux}', runner_registration_timeout_s = 600`, entity)
	require.NoError(t, err)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "it to be found up", func() bool {
		var up int
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM forge_runners WHERE up_at IS NOT NULL").Scan(&up))
		return up == 1
	})
	var state, why string
	for _, c := range []struct {
		up, listed string // how long ago
		state, why string
	}{
		{"9 minutes", "0", "pending", "never registered at the forge"},
		{"11 minutes", "2 minutes", "pending", "its time to register is over; waiting for a listing of the forge that says so too"},
		{"11 minutes", "0", "failed", "registration timeout of 10m0s: never registered at the forge"},
	} {
		var id uuid.UUID
		var before, attempt int
		coderdtest.Eventually(t, "no probe to be under way", func() bool { // so that the next one sees all of it
			return w.Store.Pool.QueryRow(ctx, `WITH probe AS (
					UPDATE jobs SET due_at = now() WHERE kind = 'probe' AND state = 'pending' RETURNING id, workspace_id, attempt
				), since AS (
					UPDATE workspaces SET state_at = now() - interval '1 hour' FROM probe WHERE workspaces.id = probe.workspace_id
				), runner AS (
					UPDATE forge_runners SET up_at = now() - $1::interval FROM probe
				), forge AS (
					UPDATE forge_status SET runners_listed_at = now() - $2::interval FROM probe
				)
				SELECT id, attempt FROM probe`, c.up, c.listed).Scan(&id, &before) == nil
		})
		r.Worker.Wake()
		coderdtest.Eventually(t, "the next to be over", func() bool {
			require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT attempt, state, last_error FROM jobs WHERE id = $1", id).
				Scan(&attempt, &state, &why))
			return attempt > before && state != "running"
		})
		require.Equal(t, []string{c.state, c.why}, []string{state, why}, "up for %s, listed %s ago", c.up, c.listed)
	}
	var fault string
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT fault FROM workspaces WHERE fault <> ''").Scan(&fault))
	require.Equal(t, why, fault)
}
