package e2e_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// modules are a pool of modules that need no plugin: each makes a file in a directory that is their cloud.
const modules = `
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

// A pool of modules: what they made is claimed, released and destroyed like any workspace, and nothing is left.
func TestTerraform_pool(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("terraform"); err != nil {
		require.Empty(t, os.Getenv("CI"), "terraform is not there: %v", err)
		t.Skip("terraform is not there: install 1.6 or newer from developer.hashicorp.com/terraform/install")
	}
	ctx, url := t.Context(), dbtest.URL(t)
	cloud, err := os.MkdirTemp("", "prewarm-cloud") // modules run as users of their own, who cannot enter what t.TempDir makes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(cloud)) })
	require.NoError(t, os.Chmod(cloud, 0o777))
	machines := func() int {
		found, err := filepath.Glob(filepath.Join(cloud, "*"))
		require.NoError(t, err)
		return len(found)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("k1:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600))
	var servers []*e2etest.Server
	for range 2 {
		servers = append(servers, e2etest.Start(t, e2etest.Options{
			PostgresURL: url, Tick: 500 * time.Millisecond, Args: []string{"--encryption-keys-file", keys},
		}))
	}
	c := servers[0].Client
	apply(ctx, t, c, modules, cloud)
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
