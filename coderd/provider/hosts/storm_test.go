package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// fleetWorld is a database and a fleet, for replicas.
type fleetWorld struct {
	*coderdtest.World
	fleet    *hoststest.Fleet
	machines *inventory.Machines
}

func newFleetWorld(t *testing.T, n int, settings map[string]any) *fleetWorld {
	t.Helper()
	w := &fleetWorld{World: coderdtest.NewWorld(t, sim.Behavior{}), fleet: hoststest.Start(t, n)}
	w.Providers = provider.NewRegistry(map[string]provider.Factory{
		"hosts": func(config json.RawMessage) (provider.Provider, error) {
			parsed, err := hosts.ParseConfig(config)
			return hosts.New(hosts.Options{Config: parsed, Logger: slog.Make()}), err
		},
	}, database.InTransaction)
	config := w.fleet.Config(t, settings)
	w.Providers.Update([]provider.Row{{Name: "fleet", Kind: "hosts", Config: config}})
	w.Apply(t, fmt.Sprintf(`providers: [{name: fleet, kind: hosts, create_every: 1s, create_burst: 20, config: %s}]`, config)) // the rate has tests of its own
	w.machines = &inventory.Machines{
		Store: w.Store, Providers: w.Providers, Clock: quartz.NewReal(), Log: slog.Make(), Hints: hints.Local(hints.Ears{}),
	}
	return w
}

// list has all machines asked now.
func (w *fleetWorld) list(t *testing.T) {
	t.Helper()
	listed, err := w.machines.List(t.Context(), "fleet", 0)
	require.NoError(t, err)
	require.True(t, listed)
}

func (w *fleetWorld) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 3*time.Minute, 50*time.Millisecond, what)
}

// S4, S5: `instances: all` takes in every machine, each with one workspace, the lowest ids first under a maximum, and nobody
// who claims sees anything of who was there before.
func TestStorm(t *testing.T) {
	t.Parallel()
	const n = 4
	w := newFleetWorld(t, n, nil)
	w.list(t)
	templates := w.Apply(t, `
templates:
  - name: bare
    provider: fleet
    spec:
      prepare: echo $PREWARM_WORKSPACE >owner
      check: test -e owner
      reset: rm -f "$HOME/mark"
      proof: test ! -e "$HOME/mark"
    presets: [{name: default, prebuilds: {instances: all}}]
`)
	replicas := []*coderdtest.Replica{
		w.Start(t, coderdtest.Config{Tick: time.Second}), w.Start(t, coderdtest.Config{Tick: time.Second}),
	}
	replicas[0].Reconciler.Nudge(templates...)
	w.eventually(t, "every machine is taken in", func() bool { return w.Count(t, "bare", "ready") == n })

	// Nobody may find another's mark, and no two may be on one machine at a time.
	var users sync.WaitGroup
	var mu sync.Mutex
	using := map[string]string{}
	for user := range 3 {
		users.Go(func() {
			r := replicas[user%2]
			for range rounds(t, 3) {
				res, err := w.Claim(t, r, "bare", claim.Request{Mode: database.ClaimModePrefer, Wait: 3 * time.Minute})
				if !assert.NoError(t, err) || !assert.NotNil(t, res.Workspace) {
					return
				}
				w.use(t, r, res, &mu, using)
			}
		})
	}
	users.Wait()
	w.eventually(t, "the pool is full again", func() bool { return w.Count(t, "bare", "ready") == n })
	var double int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT provider_id FROM workspaces
		WHERE state NOT IN ('deleted', 'deleting') AND provider_id <> '' GROUP BY 1 HAVING count(*) > 1) d`).Scan(&double))
	require.Zero(t, double)
	w.list(t)
	var held int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), `SELECT count(*) FROM provider_machines m
		JOIN workspaces w ON w.id = m.workspace_id AND w.provider_id = m.machine AND w.name = m.holder
		WHERE m.state = 'used'`).Scan(&held))
	require.Equal(t, n, held, "the listing and the reservations agree")
}

// use is a user: looks for what others left, leaves a mark and a process, and goes.
func (w *fleetWorld) use(t *testing.T, r *coderdtest.Replica, res claim.Result, mu *sync.Mutex, using map[string]string) {
	ctx := context.WithoutCancel(t.Context())
	machine := w.machine(res.Workspace.ProviderID)
	mu.Lock()
	assert.Empty(t, using[machine.Name], "two at once on %s", machine.Name)
	using[machine.Name] = res.Workspace.Name
	mu.Unlock()
	_, err := os.Stat(filepath.Join(machine.Home, "mark"))
	assert.ErrorIs(t, err, os.ErrNotExist, "%s has a mark of the user before", machine.Name)
	home := filepath.Join(machine.Home, ".prewarm", "workspace")
	owner, err := os.ReadFile(filepath.Join(home, "owner"))
	assert.NoError(t, err)
	assert.Equal(t, res.Workspace.Name+"\n", string(owner))
	entries, err := os.ReadDir(home)
	assert.NoError(t, err)
	assert.Len(t, entries, 1, "there is only what prepare made")
	assert.Empty(t, machine.Processes("MARKED=yes"), "%s has processes of the user before", machine.Name)

	p, err := w.Providers.Get("fleet")
	assert.NoError(t, err)
	execer, ok := provider.As[provider.Execer](p)
	if !assert.True(t, ok) {
		return
	}
	status, err := execer.Exec(ctx, provider.Ref{
		Name: res.Workspace.Name, ProviderID: res.Workspace.ProviderID, WorkspaceID: res.Workspace.ID,
	}, provider.ExecRequest{
		Command: []string{"sh", "-c", `echo "$PREWARM_WORKSPACE" >"$HOME/mark"; touch mine; setsid sleep 1000 >/dev/null 2>&1 &`},
		Env:     map[string]string{"MARKED": "yes"},
	})
	assert.NoError(t, err)
	assert.Zero(t, status)
	mu.Lock()
	delete(using, machine.Name)
	mu.Unlock()
	actor := workspaces.Actor{UserID: w.Owner, Reason: "done", Source: "test"}
	moved, err := r.Writer.Release(ctx, actor, res.Workspace.ID)
	assert.NoError(t, err)
	r.Reconciler.Nudge(moved.TemplateID)
	r.Worker.Wake()
}

func (w *fleetWorld) machine(name string) *hoststest.Machine {
	for _, m := range w.fleet.Machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}
