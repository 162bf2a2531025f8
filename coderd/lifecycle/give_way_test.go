package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/lifecycle"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
)

// machine is a cloud of one machine, whose starts wait until they are let go.
type machine struct {
	provider.Provider
	power   provider.Stopper
	held    atomic.Pointer[chan struct{}] // nil: nothing is held
	started atomic.Int32
	made    atomic.Int32
}

func (*machine) Site() string { return "machine" }

func (m *machine) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	m.made.Add(1)
	return m.Provider.Create(ctx, req)
}

func (m *machine) Stop(ctx context.Context, ref provider.Ref) error { return m.power.Stop(ctx, ref) }

func (m *machine) Start(ctx context.Context, ref provider.Ref) error {
	if held := m.held.Load(); held != nil {
		m.started.Add(1)
		select {
		case <-*held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return m.power.Start(ctx, ref)
}

// A claim out of standby does not share the machine with the create that takes its place: that waits until the claimed one
// is started, but not for ever.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]time.Duration{"until it is started": 10 * time.Minute, "not for ever": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &machine{}
			w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
				m.Provider, m.power = cloud, cloud.(provider.Stopper) //nolint:forcetypeassert // sim is one
				return m
			})
			tier(t, w, 1, "stopped")
			r := w.Start(t, coderdtest.Config{NoPass: true, Parts: func(p *replica.Parts) {
				p.Timeouts = lifecycle.Timeouts{GiveWay: most}
			}})
			passes := coderdtest.Config{NoWork: true, Tick: 200 * time.Millisecond}
			first := w.Start(t, passes)
			coderdtest.Eventually(t, "it is stopped", func() bool { return atRest(t, w, 0, 1) })
			first.Stop() // so that the next is asked for when the start is under way, however slow the machine
			hold := make(chan struct{})
			m.held.Store(&hold)
			hit, err := w.Claim(t, r, "go", claim.Request{})
			require.NoError(t, err)
			require.True(t, hit.Standby)
			coderdtest.Eventually(t, "it is being started", func() bool { return m.started.Load() == 1 })
			w.Start(t, passes)
			if most < time.Minute {
				coderdtest.Eventually(t, "the next is made all the same", func() bool { return m.made.Load() == 2 })
			} else {
				coderdtest.Eventually(t, "a worker has the create of the next", func() bool {
					var running int
					require.NoError(t, w.Store.Pool.QueryRow(t.Context(),
						"SELECT count(*) FROM jobs WHERE kind = 'create' AND state = 'running'").Scan(&running))
					return running == 1
				})
				require.Never(t, func() bool { return m.made.Load() > 1 }, 300*time.Millisecond, 10*time.Millisecond)
			}
			m.held.Store(nil)
			close(hold)
			require.Empty(t, usable(t, w, hit.Workspace.ID))
			coderdtest.Eventually(t, "the pool is full again", func() bool { return atRest(t, w, 0, 1) })
			require.EqualValues(t, 2, m.made.Load())
		})
	}
}
