package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform/codertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tied"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// engineOf runs what a template puts into a directory, as an engine runs containers: each file is one, until it is removed.
func engineOf(t *testing.T, dir string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	running := map[string]*exec.Cmd{}
	end := func(file string) {
		_ = syscall.Kill(-running[file].Process.Pid, syscall.SIGKILL)
		_ = running[file].Wait()
		delete(running, file)
	}
	begin := func(file string) {
		var container struct{ Entrypoint, Env []string }
		raw, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(raw, &container) != nil || len(container.Entrypoint) == 0 {
			return
		}
		home := file + ".home"
		if os.MkdirAll(home, 0o700) != nil {
			return
		}
		cmd := exec.Command(container.Entrypoint[0], container.Entrypoint[1:]...)
		cmd.Dir, cmd.Env = home, append(container.Env, "HOME="+home, "PATH=/usr/local/bin:/usr/bin:/bin")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if tied.Start(cmd) == nil {
			running[file] = cmd
		}
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				for file := range running {
					end(file)
				}
				return
			case <-tick.C:
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
			there := map[string]bool{}
			for _, file := range files {
				if there[file] = true; running[file] == nil {
					begin(file)
				}
			}
			for file := range running {
				if !there[file] {
					end(file)
				}
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// A template of Coder becomes a pool by its import: its files are not changed, its own init script starts our agent, a claim is a hit,
// and a release destroys what was made.
func TestCoder_pool(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	if _, err := exec.LookPath("curl"); err != nil {
		require.Empty(t, os.Getenv("CI"), "curl is not there: %v", err)
		t.Skip("curl is not there, by which the init script fetches the agent")
	}
	ctx := t.Context()
	engine, _, keys := cloud(t)
	engineOf(t, engine)
	here := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(here, "docker"), os.DirFS(filepath.Join("..", "coder", "testdata", "docker"))))
	for name, content := range map[string]string{
		"presets.tf": `
			data "coder_parameter" "size" {
			  name    = "size"
			  default = "small"
			}
			data "coder_workspace_preset" "large" {
			  name       = "Large"
			  parameters = { (data.coder_parameter.size.name) = "large" }
			  prebuilds {
			    instances = 1
			  }
			}`,
		"engine.auto.tfvars": fmt.Sprintf("engine = %q\n", engine),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(here, "docker", name), []byte(content), 0o600))
	}
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 500 * time.Millisecond, Args: keys})
	c := server.Client
	env := []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token}
	run := func(args ...string) e2etest.Outcome {
		t.Helper()
		out := e2etest.Run(ctx, t, env, args...)
		require.Zero(t, out.Status, out.Stderr)
		return out
	}
	file := filepath.Join(here, "pool.yaml")
	written := run("import", "coder", filepath.Join(here, "docker"), "--provider", "tf", "--name", "boxes")
	require.Contains(t, written.Stderr, "main.tf:48: coder_app.code-server: there are no buttons for apps: prewarm workspace link NAME 13337 opens it")
	require.NoError(t, os.WriteFile(file, []byte(written.Stdout), 0o600))
	_, err := c.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(
		"providers: [{name: tf, kind: terraform, inventory_every: 1s, config: {mirror: %q}}]", codertest.Mirror(t))})
	require.NoError(t, err)
	run("apply", "-f", file)
	var ready sdk.Workspace
	require.Eventually(t, func() bool {
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
		if err != nil || len(list.Workspaces) == 0 {
			return false
		}
		ready = list.Workspaces[0]
		return true
	}, 4*time.Minute, 100*time.Millisecond, "the agent of a template of Coder reports")
	is, err := c.Workspace(ctx, ready.Name)
	require.NoError(t, err)
	require.NotNil(t, is.Agent)
	_, err = os.Stat(filepath.Join(engine, "coder-prewarm-"+ready.Name+".json"))
	require.NoError(t, err)

	claim, err := c.Claim(ctx, sdk.ClaimRequest{Template: "boxes", Preset: "large", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, ready.Name, claim.Name)
	said := run("workspace", "exec", ready.Name, "--", "sh", "-c", "cat ~/.init_done; env")
	require.Contains(t, said.Stdout, "prepared with ", "its startup_script has run")
	require.NotContains(t, said.Stdout, "CODER_AGENT_TOKEN")

	require.NoError(t, c.DeleteTemplate(ctx, "boxes"))
	_, err = c.DeleteWorkspace(ctx, ready.Name, false)
	require.NoError(t, err)
	eventually(t, "all of it to be destroyed", func() bool {
		left, err := c.Workspaces(ctx, sdk.WorkspaceFilter{})
		files, _ := filepath.Glob(filepath.Join(engine, "*.json"))
		return err == nil && len(left.Workspaces) == 0 && len(files) == 0
	})
}
