package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform/codertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// ownedModule has a resource that takes its owner in place, or is replaced for another one.
const ownedModule = `
      main.tf: |
        terraform {
          required_providers { coder = { source = "coder/coder" } }
        }
        data "coder_workspace" "me" {}
        data "coder_workspace_owner" "me" {}
        resource "coder_agent" "main" {
          os   = "linux"
          arch = "amd64"
          env  = { GIT_AUTHOR_NAME = data.coder_workspace_owner.me.name }
        }
        resource "terraform_data" "machine" {
          %s = { name = data.coder_workspace.me.name, owner = data.coder_workspace_owner.me.name }
        }
        output "is" {
          value = { OWNER = terraform_data.machine.%s.owner, MACHINE = terraform_data.machine.id }
        }`

func ownedTemplate(name, when, by, read string) string {
	return fmt.Sprintf(`
- name: %s
  provider: tf
  boot_timeout: 5m
  spec:
    apply_on_claim: %s
    outputs: { environment: is }
    module:%s
  presets: [{name: default, prebuilds: {instances: 1}}]`, name, when, fmt.Sprintf(ownedModule, by, read))
}

// A claimed workspace is applied again for its owner where its template says so: beside its use, before somebody who waits uses it, or
// never. What would replace something is refused, and the workspace stays as it is.
func TestCoder_handover(t *testing.T) {
	t.Parallel()
	needsTerraform(t)
	ctx := t.Context()
	_, _, keys := cloud(t)
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 500 * time.Millisecond, Args: keys})
	c := server.Client
	_, err := c.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(
		"providers: [{name: tf, kind: terraform, inventory_every: 1s, config: {mirror: %q}}]\ntemplates:%s%s%s%s", codertest.Mirror(t),
		ownedTemplate("stays", "never", "input", "output"), ownedTemplate("later", "after", "input", "output"),
		ownedTemplate("first", "before", "input", "output"), ownedTemplate("replaced", "before", "triggers_replace", "triggers_replace"))})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
		return err == nil && len(list.Workspaces) == 4
	}, 4*time.Minute, 100*time.Millisecond, "the pools are warm")
	reasons := func(w sdk.Workspace) []string {
		return lists.Of(w.History, func(h sdk.Transition) string { return h.Reason })
	}
	claim := func(template, wait string) sdk.Claim {
		t.Helper()
		got, err := c.Claim(ctx, sdk.ClaimRequest{Template: template, Preset: "default", Mode: "require", WaitReady: wait})
		require.NoError(t, err)
		require.Equal(t, "hit", got.Outcome, got.Reason)
		return got
	}
	machines := map[string]string{}
	list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
	require.NoError(t, err)
	for _, w := range list.Workspaces {
		is, err := c.Workspace(ctx, w.Name)
		require.NoError(t, err)
		require.Equal(t, "prewarm", is.Environment["OWNER"])
		machines[w.Name] = is.Environment["MACHINE"]
	}

	later := claim("later", "")
	require.Equal(t, "prewarm", later.Environment["OWNER"], "a claim waits for nothing")
	eventually(t, "the workspace to be applied for its owner", func() bool {
		is, err := c.Workspace(ctx, later.Name)
		require.NoError(t, err)
		return is.Environment["OWNER"] == "owner" && slices.Contains(reasons(is), "applied for its owner")
	})
	is, err := c.Workspace(ctx, later.Name)
	require.NoError(t, err)
	require.Equal(t, machines[later.Name], is.Environment["MACHINE"], "it is the same")
	require.Contains(t, reasons(is), "to be applied for its owner")
	require.Nil(t, is.Job)
	require.Equal(t, "done", is.Handover)
	require.Equal(t, []string{"coder_agent.main", "terraform_data.machine"}, is.Resources)
	shown := e2etest.Run(ctx, t, []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token}, "workspace", "show", later.Name)
	require.Regexp(t, `Made of +coder_agent\.main, terraform_data\.machine`, shown.Stdout)

	first := claim("first", "3m")
	require.Equal(t, map[string]string{"OWNER": "owner", "MACHINE": machines[first.Name]}, first.Environment)
	require.Empty(t, first.Fault)

	replaced := claim("replaced", "3m")
	require.Contains(t, replaced.Fault, "its plan would replace or remove terraform_data.machine, so nothing was done")
	require.Equal(t, "prewarm", replaced.Environment["OWNER"])
	env := []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token}
	out := e2etest.Run(ctx, t, env, "workspace", "retry", replaced.Name)
	require.Zero(t, out.Status, out.Stderr)
	eventually(t, "it to be refused again", func() bool {
		is, err := c.Workspace(ctx, replaced.Name)
		require.NoError(t, err)
		return len(slices.DeleteFunc(reasons(is), func(r string) bool { return !strings.Contains(r, "would replace") })) == 2
	})
	is, err = c.Workspace(ctx, replaced.Name)
	require.NoError(t, err)
	require.Equal(t, "claimed", is.State)
	require.Equal(t, "failed", is.Handover)
	require.Equal(t, map[string]string{"OWNER": "prewarm", "MACHINE": machines[replaced.Name]}, is.Environment)

	stays := claim("stays", "3m")
	require.Equal(t, "prewarm", stays.Environment["OWNER"])
	is, err = c.Workspace(ctx, stays.Name)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(reasons(is), "\n"), "for its owner")
	_, err = c.RetryWorkspace(ctx, stays.Name)
	require.ErrorContains(t, err, "no apply for its owner has failed")

	for _, template := range []string{"stays", "later", "first", "replaced"} {
		require.NoError(t, c.DeleteTemplate(ctx, template))
	}
	for _, of := range []sdk.Claim{stays, later, first, replaced} {
		_, err := c.ReleaseWorkspace(ctx, of.Name)
		require.NoError(t, err)
	}
	eventually(t, "all of it to be destroyed", func() bool {
		left, err := c.Workspaces(ctx, sdk.WorkspaceFilter{})
		return err == nil && len(left.Workspaces) == 0
	})
}
