package e2e_test

import (
	"bufio"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// madeModules are a pool of modules that need no plugin: each makes a file in a directory that is their cloud.
const madeModules = `
providers: [{name: tf, kind: terraform, inventory_every: 1s}]
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
            provisioner "local-exec" { command = "touch ${self.output}/${self.id}" }
            provisioner "local-exec" {
              when    = destroy
              command = "rm ${self.output}/${self.id}"
            }
          }
          output "machine" { value = "${terraform_data.machine.output}/${terraform_data.machine.id}" }
          output "env" {
            value     = { TOKEN = "of-the-module" }
            sensitive = true
          }
      outputs: {addresses: machine, environment: env}
    presets:
      - name: default
        parameters: {cloud: %q}
        prebuilds: {instances: 2}
`

// needsTerraform leaves a test out where Terraform is missing, but not in CI.
func needsTerraform(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		require.Empty(t, os.Getenv("CI"), "terraform is not there: %v", err)
		t.Skip("terraform is not there: install 1.6 or newer from developer.hashicorp.com/terraform/install")
	}
}

// cloud is a directory that modules make files in, as users of their own, who cannot enter what t.TempDir makes. It returns what is there
// besides, and the flag that names encryption keys for all servers.
func cloud(t *testing.T) (dir string, machines func() int, keys []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "prewarm-cloud")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte("k1:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600))
	return dir, func() int {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		return len(found)
	}, []string{"--encryption-keys-file", file}
}

// A pool of modules: what they made is claimed, released and destroyed like any workspace, and nothing is left.
func TestTerraform_pool(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	ctx, url := t.Context(), dbtest.URL(t)
	dir, machines, keys := cloud(t)
	var servers []*e2etest.Server
	for range 2 {
		servers = append(servers, e2etest.Start(t, e2etest.Options{
			PostgresURL: url, Tick: 500 * time.Millisecond, Args: keys,
		}))
	}
	c := servers[0].Client
	apply(ctx, t, c, madeModules, dir)
	ready := func(n int) {
		require.Eventually(t, func() bool {
			list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
			return err == nil && len(list.Workspaces) == n
		}, 2*time.Minute, 100*time.Millisecond, "%d prebuilt workspaces", n)
	}
	ready(2)
	require.Equal(t, 2, machines())
	claim, err := servers[1].Client.Claim(ctx, sdk.ClaimRequest{Template: "modules", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "of-the-module", claim.Environment["TOKEN"])
	require.Len(t, claim.Addresses, 1)
	require.FileExists(t, claim.Addresses[0].Address)
	ready(2)
	require.Equal(t, 3, machines())
	_, err = c.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	eventually(t, "its machine to be gone", func() bool { return machines() == 2 })
	require.NoFileExists(t, claim.Addresses[0].Address)

	require.NoError(t, c.DeleteTemplate(ctx, "modules"))
	eventually(t, "all to be gone", func() bool { return machines() == 0 })
	store := dbtest.OpenURL(t, url, database.Options{MaxConns: 1})
	eventually(t, "all rows to say so", func() bool {
		var n int
		err := store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state <> 'deleted'").Scan(&n)
		return err == nil && n == 0
	})
}

// slow are modules whose machine takes as long to make as a file is there.
const slow = `
providers: [{name: tf, kind: terraform, maximum: 1, inventory_every: 1s}]
templates:
  - name: slow
    provider: tf
    boot_timeout: 5m
    spec:
      module:
        main.tf: |
          variable "cloud" { type = string }
          resource "terraform_data" "machine" {
            provisioner "local-exec" { command = "echo making; touch ${var.cloud}/${self.id}; while test -e ${var.cloud}/hold; do sleep 0.1; done" }
          }
    presets:
      - name: default
        parameters: {cloud: %q}
        prebuilds: {instances: 1}
`

// A server that is killed in the middle of an apply leaves a machine that no state names. No other is made in its place: its workspace says
// what to look for and keeps its place, until a person deletes it by force, which is on record with what may be left.
func TestTerraform_killed(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	ctx := t.Context()
	dir, machines, keys := cloud(t)
	opts := e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 500 * time.Millisecond, Args: keys}
	hold := filepath.Join(dir, "hold")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	first := e2etest.Start(t, opts)
	apply(ctx, t, first.Client, slow, dir)
	eventually(t, "a machine beside the file", func() bool { return machines() == 2 })
	first.Kill()
	require.NoError(t, os.Remove(hold))

	c := e2etest.Start(t, opts).Client
	var left sdk.Workspace
	require.Eventually(t, func() bool {
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "deleting"})
		if err != nil || len(list.Workspaces) != 1 {
			return false
		}
		left = list.Workspaces[0]
		return left.Job != nil && left.Job.Failures > 0
	}, 3*time.Minute, 100*time.Millisecond, "a workspace that is not deleted")
	require.Contains(t, left.Fault, "an apply was cut off, and these may exist though no state names them: terraform_data.machine.")
	require.Contains(t, left.Fault, "prewarm workspace delete "+left.Name+" --force")
	var p sdk.Provider
	look := func() bool {
		all, err := c.Providers(ctx)
		i := slices.IndexFunc(all, func(p sdk.Provider) bool { return p.Name == "tf" })
		if err != nil || i < 0 || len(all[i].Sites) != 1 || all[i].Sites[0].Last == nil {
			return false
		}
		p = all[i]
		return true
	}
	var looked []time.Time
	eventually(t, "three inventories", func() bool {
		if look() && !slices.Contains(looked, p.Sites[0].Last.EndedAt) {
			looked = append(looked, p.Sites[0].Last.EndedAt)
		}
		return len(looked) >= 4 // the first may have begun before
	})
	is, err := c.Workspace(ctx, left.Name)
	require.NoError(t, err)
	require.Equal(t, "deleting", is.State, "an inventory does not take it for vanished")
	require.Equal(t, 1, p.Unclaimed)
	require.Equal(t, 1, machines(), "nothing is made in its place")

	_, err = c.DeleteWorkspace(ctx, left.Name, true)
	require.NoError(t, err)
	eventually(t, "a workspace in its place", func() bool {
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
		return err == nil && len(list.Workspaces) == 1
	})
	require.Equal(t, 2, machines())
	log, err := c.Audit(ctx, sdk.AuditFilter{Target: left.Name, Action: "workspace.deleted"})
	require.NoError(t, err)
	require.Len(t, log.Entries, 1)
	require.Contains(t, string(log.Entries[0].After), "terraform_data.machine")
}

// What Terraform says is read while a workspace is made, and followed until it is gone.
func TestTerraform_logs(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	ctx := t.Context()
	dir, machines, keys := cloud(t)
	c := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 500 * time.Millisecond, Args: keys}).Client
	hold := filepath.Join(dir, "hold")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	apply(ctx, t, c, slow, dir)
	var name string
	eventually(t, "a workspace that is being made", func() bool {
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "provisioning"})
		if err != nil || len(list.Workspaces) == 0 {
			return false
		}
		name = list.Workspaces[0].Name
		return true
	})
	logs, err := c.WorkspaceLogs(ctx, name, true)
	require.NoError(t, err)
	t.Cleanup(func() { _ = logs.Close() })
	lines := bufio.NewScanner(logs)
	until := func(words string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), words) {
				return
			}
		}
		require.FailNow(t, "it ends too soon", "before %q: %v", words, lines.Err())
	}
	until("terraform_data.machine: Creating")
	is, err := c.Workspace(ctx, name)
	require.NoError(t, err)
	require.Equal(t, "provisioning", is.State)
	require.NoError(t, os.Remove(hold))
	until("Apply complete!")
	eventually(t, "a ready workspace", func() bool {
		is, err := c.Workspace(ctx, name)
		return err == nil && is.State == "ready"
	})
	_, err = c.DeleteWorkspace(ctx, name, false)
	require.NoError(t, err)
	until("Destroy complete!")
	for lines.Scan() { // it ends
	}
	require.NoError(t, lines.Err())
	require.NotZero(t, machines())
}
