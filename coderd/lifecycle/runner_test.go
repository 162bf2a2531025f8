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
