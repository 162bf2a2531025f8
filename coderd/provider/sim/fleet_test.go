package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// fleet is a world with a cloud of machines, as any provider may have them.
type fleet struct {
	*coderdtest.World
	root     string
	machines *inventory.Machines
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	w := &fleet{World: coderdtest.NewWorld(t, sim.Behavior{}), root: t.TempDir()}
	w.Providers = provider.NewRegistry(map[string]provider.Factory{
		"sim": func(config json.RawMessage) (provider.Provider, error) {
			opts, err := sim.Config(config)
			if err != nil {
				return nil, err
			}
			opts.Clock = quartz.NewReal()
			p, err := sim.New(opts)
			if err != nil {
				return nil, err
			}
			return p.Offered(), nil
		},
	}, database.InTransaction)
	w.Providers.From(t.Context(), quartz.NewReal(), replica.Configured(w.Store))
	w.apply(t, fmt.Sprintf(`providers: [{name: fleet, kind: sim, create_every: 1s, create_burst: 50, config: {root: %q, machines: %d}}]`, w.root, n))
	w.machines = &inventory.Machines{
		Store: w.Store, Providers: w.Providers, Clock: quartz.NewReal(), Log: slog.Make(), Hints: hints.Local(hints.Ears{}),
	}
	return w
}

// apply applies a file, and has the registry know of it.
func (w *fleet) apply(t *testing.T, file string) []uuid.UUID {
	t.Helper()
	templates := w.Apply(t, file)
	require.NoError(t, w.Providers.Read(t.Context()))
	return templates
}

// list has all machines asked now.
func (w *fleet) list(t *testing.T) {
	t.Helper()
	listed, err := w.machines.List(t.Context(), "fleet", 0)
	require.NoError(t, err)
	require.True(t, listed)
}

func (w *fleet) query(t *testing.T, sql string) (text string) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), sql).Scan(&text))
	return text
}

const eachMachine = `SELECT string_agg(machine || ' ' || state || CASE WHEN workspace_id IS NULL THEN '' ELSE ' reserved' END, ', ' ORDER BY machine)
	FROM provider_machines`

// S2, S4, S5 hold of any provider whose machines exist beforehand: `instances: all` takes in each that nobody has, no two have
// one, and what is possibly used, or another installation's, is neither handed out nor touched, until it is unused.
func TestReservations(t *testing.T) {
	t.Parallel()
	w := newFleet(t, 5)
	require.Equal(t, "t 50 20", w.query(t, "SELECT concat_ws(' ', reserves, maximum, chunk) FROM providers WHERE name = 'fleet'"),
		"what it is is known before its machines were listed")
	cloud := open(t, sim.Options{Root: w.root, Machines: 5})
	foreign := request("another", `{}`)
	foreign.Tags.Installation, foreign.Machine = uuid.New(), sim.MachineID(1)
	_, err := cloud.Create(t.Context(), foreign)
	require.NoError(t, err)
	unreadable := filepath.Join(w.root, "resources", sim.MachineID(2)+".json")
	require.NoError(t, os.WriteFile(unreadable, []byte("{"), 0o600))

	replicas := []*coderdtest.Replica{
		w.Start(t, coderdtest.Config{Tick: time.Second}), w.Start(t, coderdtest.Config{Tick: time.Second}),
	}
	nudge := func(file string) { replicas[0].Reconciler.Nudge(w.apply(t, file)...) }
	const pool = `
templates:
  - name: bare
    provider: fleet
    spec: {create_latency: 1ms-20ms, ready_latency: 10ms, delete_latency: 5ms}
    presets: [{name: default, prebuilds: {instances: all}}]
`
	nudge(pool)
	coderdtest.Eventually(t, "a pass that knows of no machine", func() bool {
		return w.query(t, "SELECT coalesce(max(ledger::text), '') FROM preset_status") != ""
	})
	require.Zero(t, w.Count(t, "bare", "provisioning", "starting", "ready"), "none before the machines were listed")
	w.list(t)
	nudge(pool)
	coderdtest.Eventually(t, "each unused machine to be taken in", func() bool { return w.Count(t, "bare", "ready") == 3 })
	w.list(t)
	require.Equal(t, "m0001 used, m0002 possibly_used, m0003 used reserved, m0004 used reserved, m0005 used reserved", w.query(t, eachMachine))

	var users sync.WaitGroup
	var mu sync.Mutex
	using := map[string]bool{}
	for user := range 4 {
		users.Go(func() {
			r := replicas[user%2]
			for range 5 {
				res, err := w.Claim(t, r, "bare", claim.Request{Mode: database.ClaimModePrefer, Wait: time.Minute})
				if !assert.NoError(t, err) || !assert.NotNil(t, res.Workspace) {
					return
				}
				machine := ""
				assert.NoError(t, w.Store.Pool.QueryRow(t.Context(),
					"SELECT machine FROM provider_machines WHERE workspace_id = $1", res.Workspace.ID).Scan(&machine))
				mu.Lock()
				assert.False(t, using[machine], "two at once on %s", machine)
				using[machine] = true
				mu.Unlock()
				there, err := cloud.Get(t.Context(), provider.Ref{Name: res.Workspace.Name, Machine: machine})
				assert.NoError(t, err)
				assert.Equal(t, res.Workspace.ID, there.Tags.WorkspaceID)
				mu.Lock()
				delete(using, machine)
				mu.Unlock()
				moved, err := r.Writer.Release(t.Context(), workspaces.Actor{UserID: w.Owner, Reason: "done", Source: "test"}, res.Workspace.ID)
				assert.NoError(t, err)
				r.Reconciler.Nudge(moved.TemplateID)
				r.Worker.Wake()
			}
		})
	}
	users.Wait()
	coderdtest.Eventually(t, "the pool to be full again", func() bool { return w.Count(t, "bare", "ready") == 3 })
	duplicates, err := cloud.Duplicates()
	require.NoError(t, err)
	require.Empty(t, duplicates)
	content, err := os.ReadFile(unreadable)
	require.NoError(t, err)
	require.Equal(t, "{", string(content), "what cannot be read is left as it is")
	there, err := cloud.Get(t.Context(), provider.Ref{Name: "another", Machine: foreign.Machine})
	require.NoError(t, err)
	require.Equal(t, foreign.Tags, there.Tags)

	// Once they are unused they are taken in too.
	require.NoError(t, os.Remove(unreadable))
	require.NoError(t, cloud.Delete(t.Context(), provider.Ref{Name: "another"}))
	w.list(t)
	nudge(pool)
	coderdtest.Eventually(t, "all machines to be taken in", func() bool { return w.Count(t, "bare", "ready") == 5 })
}

// A provider that is told to have no machines of its own any more makes what it is asked for, by the limits of such a one.
func TestReservations_end(t *testing.T) {
	t.Parallel()
	w := newFleet(t, 1)
	w.list(t)
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	r.Reconciler.Nudge(w.apply(t, fmt.Sprintf(`
providers: [{name: fleet, kind: sim, config: {root: %q}}]
templates:
  - name: free
    provider: fleet
    spec: {}
    presets: [{name: default, prebuilds: {instances: 3}}]
`, w.root))...)
	require.Equal(t, "f 0 1000", w.query(t, "SELECT concat_ws(' ', reserves, maximum, chunk) FROM providers WHERE name = 'fleet'"))
	coderdtest.Eventually(t, "more than there were machines", func() bool { return w.Count(t, "free", "ready") == 3 })
}
