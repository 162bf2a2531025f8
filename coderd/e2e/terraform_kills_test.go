package e2e_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/userstest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// machinesOfTime are modules whose machine is a file of its id, and takes a moment to be made.
const machinesOfTime = `
providers: [{name: tf, kind: terraform, maximum: 1000, inventory_every: 2s, config: {root: %q}}]
templates:
  - name: modules
    provider: tf
    boot_timeout: 2m
    spec:
      module:
        main.tf: |
          variable "cloud" { type = string }
          resource "terraform_data" "machine" {
            input = var.cloud
            provisioner "local-exec" { command = "touch ${self.output}/${self.id}; sleep 0.3" }
            provisioner "local-exec" {
              when    = destroy
              command = "sleep 0.2; rm -f ${self.output}/${self.id}"
            }
          }
          output "machine" { value = "${terraform_data.machine.output}/${terraform_data.machine.id}" }
      outputs: {addresses: machine}
    presets: [{name: default, parameters: {cloud: %q}, prebuilds: {instances: 4}}]
`

// A server is killed again and again while it makes and removes what modules say, and users claim and release at another. I1 and I2
// hold, each machine is of a workspace's state or of one that says to look for it, and no lock and no directory of a run is left.
func TestTerraform_kills(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("PREWARM_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("PREWARM_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, url := t.Context(), dbtest.URL(t)
	store := dbtest.OpenURL(t, url, database.Options{MaxConns: 2})
	number := func(query string, args ...any) (n int) {
		require.NoError(t, store.Pool.QueryRow(ctx, query, args...).Scan(&n), query)
		return n
	}
	dir, machines, keys := cloud(t)
	root, err := os.MkdirTemp("", "prewarm-runs-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, os.Chmod(root, 0o711))
	opts := e2etest.Options{PostgresURL: url, Tick: 500 * time.Millisecond, Args: keys}
	stays := e2etest.Start(t, opts)
	c := stays.Client
	apply(ctx, t, c, machinesOfTime, root, dir)

	users, tally, stop := userstest.Start(t, userstest.Options{
		Clients: []*sdk.Client{c, c}, Random: random, Every: 500 * time.Millisecond,
		Asks: func(*rand.Rand) sdk.ClaimRequest {
			return sdk.ClaimRequest{Template: "modules", Preset: "default", Mode: "require"}
		},
	})
	kills := rounds(5)
	for range kills {
		victim := e2etest.Start(t, opts)
		eventually(t, "a run of the server that is to be killed", func() bool {
			var n int
			err := store.Pool.QueryRow(ctx, "SELECT count(*) FROM jobs WHERE state = 'running' AND leased_by = $1", victim.Replica).Scan(&n)
			return err == nil && n > 0
		})
		time.Sleep(time.Duration(random.Int64N(int64(time.Second)))) // in the middle of an init, a plan, an apply, a write or a destroy
		victim.Kill()
	}
	eventually(t, "a claim, also where each create so far was cut off", func() bool { return tally.Hits.Load() > 0 })
	stop()
	e2etest.Start(t, opts) // which removes the directories of the last one
	const unsure = "SELECT count(*) FROM terraform_runs WHERE cardinality(creating) > 0"
	require.Eventually(t, func() bool {
		p, err := c.Preset(ctx, "modules", "default")
		if err != nil || p.Counts.Eligible != 4 || p.Counts.Starting+p.Counts.Extraneous > 0 {
			return false
		}
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "deleting"})
		return err == nil && len(list.Workspaces) == number(unsure) && number("SELECT count(*) FROM jobs WHERE state = 'running'") == 0
	}, 4*time.Minute, 200*time.Millisecond, "a full pool, and nothing under way but what a person has to end")

	lost := number(unsure)
	named := map[string]bool{}
	for _, state := range []string{"ready", "claimed"} {
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: state})
		require.NoError(t, err)
		for _, w := range list.Workspaces {
			require.Len(t, w.Addresses, 1)
			require.FileExists(t, w.Addresses[0].Address)
			named[w.Addresses[0].Address] = true
		}
	}
	assert.LessOrEqual(t, machines()-len(named), lost, "each machine is of a state, or of a workspace that says to look for it")
	list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "deleting"})
	require.NoError(t, err)
	for _, w := range list.Workspaces {
		assert.Contains(t, w.Fault, "an apply was cut off, and these may exist though no state names them: terraform_data.machine")
	}
	for _, u := range users {
		for _, h := range u.Holds {
			w, err := c.Workspace(ctx, h.ID.String())
			require.NoError(t, err)
			assert.Equal(t, "claimed", w.State)
			assert.Equal(t, &h.Claim, w.ClaimID)
			assert.Empty(t, w.Fault)
		}
		for id := range u.Released {
			w, err := c.Workspace(ctx, id.String())
			require.NoError(t, err)
			assert.Equal(t, "deleted", w.State, "%s, which its user released", w.Name)
		}
	}
	userstest.Exact(t, number)
	// Deletes of what a person has to end are tried again and again, and each of these runs has a directory and a lock while it goes on.
	// What was left would stay: only a start removes a directory.
	var left []string
	const locked = "SELECT count(*) FROM terraform_runs WHERE lock_id IS NOT NULL"
	if !assert.Eventually(t, func() bool {
		var err error
		left, err = filepath.Glob(filepath.Join(root, "prewarm-*"))
		return err == nil && len(left) == 0 && number(locked) == 0
	}, time.Minute, 10*time.Millisecond, "no run's directory is left, and no lock that nobody holds") {
		var rows string
		require.NoError(t, store.Pool.QueryRow(ctx, `SELECT coalesce(string_agg(format('%s %s: %s, created %s', w.name, w.state, to_jsonb(r) - 'module' - 'token_hash', j), chr(10)), '')
			FROM terraform_runs r LEFT JOIN workspaces w ON w.id = r.workspace_id LEFT JOIN jobs j ON j.id = r.job_id WHERE r.lock_id IS NOT NULL`).Scan(&rows))
		t.Fatalf("left: %q, locks: %s", left, rows)
	}
	if kills >= 100 {
		assert.Positive(t, lost, "no apply was cut off")
	}
	t.Logf("%d kills; %d claims, %d misses, %d releases; %d workspaces made; %d of them say what to look for",
		kills, tally.Hits.Load(), tally.Misses.Load(), tally.Releases.Load(), number("SELECT count(*) FROM workspaces"), lost)
}
