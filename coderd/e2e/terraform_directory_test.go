package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// directories are a pool of modules that are in a directory beside the file.
const directories = `
providers: [{name: tf, kind: terraform, inventory_every: 1s}]
templates:
  - name: directories
    provider: tf
    boot_timeout: 2m
    spec:
      module: ./vm
      outputs: {addresses: machine, environment: env}
    presets:
      - name: default
        parameters: {cloud: %q}
        prebuilds: {instances: 1}
`

// directory is a module with a module of its own in a subdirectory. Its script makes a machine, and says at its end which directory it
// is of.
var directory = map[string]string{
	"main.tf": `
		variable "cloud" { type = string }
		module "machine" {
		  source = "./machine"
		  cloud  = var.cloud
		}
		output "machine" { value = module.machine.path }
		output "env" { value = { SAID = trimspace(file("${path.module}/machine/said.txt")) } }
	`,
	"machine/main.tf": `
		variable "cloud" { type = string }
		resource "terraform_data" "machine" {
		  input = { script = "${path.module}/machine.sh", cloud = var.cloud }
		  provisioner "local-exec" { command = "${self.output.script} make ${self.output.cloud}/${self.id}" }
		  provisioner "local-exec" {
		    when    = destroy
		    command = "${self.output.script} remove ${self.output.cloud}/${self.id}"
		  }
		}
		output "path" { value = "${terraform_data.machine.output.cloud}/${terraform_data.machine.id}" }
	`,
	"machine/machine.sh": "#!/bin/sh\ncase $1 in\nmake) touch \"$2\" ;;\nremove) rm \"$2\" && touch \"${2%/*}/../${2##*/}-removed-by-$(cat \"${0%/*}/said.txt\")\" ;;\nesac\n",
	"machine/said.txt":   "first",
}

// A directory beside the file makes workspaces, by all of its files. Another content is another version. What the first one made is
// removed by the first one.
func TestTerraform_directory(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	ctx := t.Context()
	above, _, keys := cloud(t)
	dir := filepath.Join(above, "machines")
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, os.Chmod(dir, 0o777))
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 500 * time.Millisecond, Args: keys})
	c := server.Client
	env := []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token}
	here := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(here, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
	for name, content := range directory {
		write("vm/"+name, content)
	}
	write("pool.yaml", fmt.Sprintf(directories, dir))
	apply := func(file string) string {
		out := e2etest.Run(ctx, t, env, "apply", "-f", file)
		require.Zero(t, out.Status, out.Stderr)
		return out.Stdout
	}
	machines := func() int {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries)
	}
	ready := func(version int) {
		require.Eventually(t, func() bool {
			list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
			return err == nil && len(list.Workspaces) == 1 && list.Workspaces[0].Version == version
		}, 2*time.Minute, 100*time.Millisecond, "a prebuilt workspace of version %d", version)
	}
	apply(filepath.Join(here, "pool.yaml"))
	ready(1)
	claim, err := c.Claim(ctx, sdk.ClaimRequest{Template: "directories", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "first", claim.Environment["SAID"])
	require.Len(t, claim.Addresses, 1)
	require.FileExists(t, claim.Addresses[0].Address)
	ready(1) // none is under way when the version changes

	require.Equal(t, "Nothing to change.\n", apply(filepath.Join(here, "pool.yaml")))
	exported := e2etest.Run(ctx, t, env, "template", "export", "directories")
	require.Zero(t, exported.Status, exported.Stderr)
	require.Contains(t, exported.Stdout, "module: sha256:")
	write("exported.yaml", exported.Stdout)
	require.Equal(t, "Nothing to change.\n", apply(filepath.Join(here, "exported.yaml")))

	check := e2etest.Run(ctx, t, env, "provider", "check", "tf", "--preset", "directories/default")
	require.Zero(t, check.Status, check.Stdout+check.Stderr)

	write("vm/machine/said.txt", "second")
	require.Contains(t, apply(filepath.Join(here, "pool.yaml")), "directories@2")
	ready(2)
	_, err = c.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	removed := func(pattern string) func() bool {
		return func() bool {
			found, err := filepath.Glob(filepath.Join(above, pattern))
			return err == nil && len(found) == 1
		}
	}
	eventually(t, "its machine to be removed by its own version", removed(filepath.Base(claim.Addresses[0].Address)+"-removed-by-first"))
	require.NoFileExists(t, claim.Addresses[0].Address)

	require.NoError(t, c.DeleteTemplate(ctx, "directories"))
	eventually(t, "the last to be removed by its own version", removed("*-removed-by-second"))
	eventually(t, "all to be gone", func() bool { return machines() == 0 })
}
