package terraform_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform/codertest"
)

// coderFiles are those of a template of Coder.
func coderFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	archive, err := modules.Pack(filepath.Join("..", "..", "coder", "testdata", name))
	require.NoError(t, err)
	files, err := modules.Read(archive)
	require.NoError(t, err)
	contents := map[string]string{}
	for _, f := range files {
		contents[f.Name] = string(f.Content)
	}
	return contents
}

// A template of Coder is applied as it is, with the provider that Coder has. Its agent has our token and our script. A second apply with
// the same token changes nothing, and a destroy leaves nothing.
func TestCoder(t *testing.T) {
	t.Parallel()
	mirror := codertest.Mirror(t)
	for name, of := range map[string]struct {
		parameters map[string]string
		outputs    string
		says       map[string]string
		owned      map[string]string // after the handover; nil: it is refused
	}{
		"docker": {},
		"kubernetes": {
			parameters: map[string]string{"cpu": "4"}, outputs: "deployment",
			says: map[string]string{"CPU": "4", "USER": "prewarm"}, owned: map[string]string{"CPU": "4", "USER": "alice"},
		},
		"presets": {
			parameters: map[string]string{"key": "k", "cpus": "16"}, outputs: "machine",
			says:  map[string]string{"REGION": "eu", "SIZE": "16", "OWNER": "prewarm"},
			owned: map[string]string{"REGION": "eu", "SIZE": "16", "OWNER": "alice"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.Mirror = mirror
			req := c.request(name, "", false)
			req.Organization, req.Template, req.Preset, req.Parameters = "default", name, "large", of.parameters
			spec := map[string]any{"module": coderFiles(t, name)}
			if name == "docker" {
				spec["variables"] = map[string]string{"engine": c.dir}
			}
			if of.outputs != "" {
				spec["outputs"] = map[string]string{"environment": of.outputs}
			}
			var err error
			req.Spec, err = json.Marshal(spec)
			require.NoError(t, err)
			const token = "a-token-of-an-agent"
			req.Callback = provider.Callback{
				CallbackURL: "http://127.0.0.1:3999/api/v1/instance/status", Token: token,
				CABundle: []byte("# it's theirs\n-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"),
			}

			made, err := c.Create(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, provider.StatusRunning, made.Status)
			for key, value := range of.says {
				require.Equal(t, value, made.Environment[key], key)
			}
			c.agentOf(req, token)
			if name == "docker" {
				c.container(token)
			}
			_, end, err := c.states.Output(t.Context(), req.Tags.WorkspaceID, 0)
			require.NoError(t, err)
			_, err = c.Create(t.Context(), req)
			require.NoError(t, err)
			said, _, err := c.states.Output(t.Context(), req.Tags.WorkspaceID, end)
			require.NoError(t, err)
			require.Contains(t, said, "0 added, 0 changed, 0 destroyed", "a second apply replaces nothing")
			require.NotContains(t, said, "will be", "nor does it change anything")
			all, _, err := c.states.Output(t.Context(), req.Tags.WorkspaceID, 0)
			require.NoError(t, err)
			require.NotContains(t, all, token)
			c.agentOf(req, token)
			c.handOver(req, made, of.owned)
			c.agentOf(req, token)

			require.NoError(t, c.Delete(t.Context(), refTo(req)))
			_, err = c.Get(t.Context(), refTo(req))
			require.ErrorIs(t, err, provider.ErrNotFound)
			require.Empty(t, c.files())
		})
	}
}

// handOver applies what was made for its owner, twice. It touches no more than what the plan can change in place: where that is not
// enough it is refused.
func (c *cloud) handOver(req provider.CreateRequest, made provider.Instance, owned map[string]string) {
	c.t.Helper()
	handover := provider.HandoverRequest{Ref: refTo(req), OwnerID: uuid.New(), Owner: "alice"}
	hands, ok := provider.As[provider.Handover](c.Provider)
	require.True(c.t, ok)
	files := c.files()
	for _, changed := range []string{"1 changed", "0 changed"} {
		_, end, err := c.states.Output(c.t.Context(), req.Tags.WorkspaceID, 0)
		require.NoError(c.t, err)
		is, err := hands.HandOver(c.t.Context(), handover)
		if owned == nil {
			require.ErrorContains(c.t, err, "its plan would replace or remove terraform_data.workspace[0], so nothing was done")
			require.True(c.t, provider.IsPermanent(err))
			is, err = c.Get(c.t.Context(), refTo(req))
			require.NoError(c.t, err)
			require.Equal(c.t, made.Environment, is.Environment)
			require.Equal(c.t, files, c.files())
			continue
		}
		require.NoError(c.t, err)
		for key, value := range owned {
			require.Equal(c.t, value, is.Environment[key], key)
		}
		said, _, err := c.states.Output(c.t.Context(), req.Tags.WorkspaceID, end)
		require.NoError(c.t, err)
		if req.Template == "presets" { // what is of the provider `coder` is made again with the name of its owner, and nothing else
			require.NotContains(c.t, said, "terraform_data.machine will be")
			require.NotContains(c.t, said, "terraform_data.machine must be")
			continue
		}
		require.Contains(c.t, said, "0 added, "+changed+", 0 destroyed")
	}
}

// agentOf says that the agent in the state of a workspace has the token, and a script that templates can put between single quotes.
func (c *cloud) agentOf(req provider.CreateRequest, token string) {
	c.t.Helper()
	run, err := c.states.BeginAlone(c.t.Context(), req.Tags.WorkspaceID, req.Name, 1)
	require.NoError(c.t, err)
	access, err := c.states.Authenticate(c.t.Context(), run.WorkspaceID.String(), run.Token)
	require.NoError(c.t, err)
	raw, _, err := c.states.Read(c.t.Context(), access)
	require.NoError(c.t, err)
	var state struct {
		Resources []struct {
			Mode, Type string
			Instances  []struct {
				Attributes struct {
					Token  string
					Script string `json:"init_script"`
				}
			}
		}
	}
	require.NoError(c.t, json.Unmarshal(raw, &state))
	agents := 0
	for _, r := range state.Resources {
		if r.Type == "coder_agent" {
			agents++
			a := r.Instances[0].Attributes
			require.Equal(c.t, token, a.Token)
			require.Contains(c.t, a.Script, `server="http://127.0.0.1:3999/"`)
			require.Contains(c.t, a.Script, "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\nEND_OF_AUTHORITIES\n")
			require.NotContains(c.t, a.Script, "'")
			require.NotContains(c.t, a.Script, token)
		}
	}
	require.Equal(c.t, 1, agents)
}

// container says what the template hands to its engine.
func (c *cloud) container(token string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "coder-prewarm-docker.json"))
	require.NoError(c.t, err)
	require.Len(c.t, files, 1)
	raw, err := os.ReadFile(files[0])
	require.NoError(c.t, err)
	var container struct{ Entrypoint, Env []string }
	require.NoError(c.t, json.Unmarshal(raw, &container))
	require.Equal(c.t, []string{"CODER_AGENT_TOKEN=" + token}, container.Env)
	require.Equal(c.t, []string{"sh", "-c"}, container.Entrypoint[:2])
}

// Without an agent in the template, that of the directory has a token that is good for nothing, and no new one in each apply. With one,
// the directory must have an agent too.
func TestCoder_agents(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	req := c.request("plain", `output "x" { value = "an agent of coder" }`, false)
	req.Callback = provider.Callback{CallbackURL: "http://127.0.0.1:3999/api/v1/instance/status", Token: "t"}
	_, err := c.Create(t.Context(), req)
	require.ErrorContains(t, err, "its module has no resource coder_agent")
	require.True(t, provider.IsPermanent(err))
	all, err := c.List(t.Context(), c.installation)
	require.NoError(t, err)
	require.Empty(t, all)

	c.Mirror = codertest.Mirror(t)
	req.Callback, req.Template = provider.Callback{}, "plain"
	req.Spec, err = json.Marshal(map[string]any{
		"module": map[string]string{"main.tf": `
			terraform {
			  required_providers { coder = { source = "coder/coder" } }
			}
			data "coder_workspace" "me" {}
			data "coder_parameter" "size" { name = "size" }
			resource "coder_agent" "main" {
			  os   = "linux"
			  arch = "amd64"
			}
			output "said" {
			  value     = { TOKEN = coder_agent.main.token, SIZE = data.coder_parameter.size.value, URL = data.coder_workspace.me.access_url }
			  sensitive = true
			}`},
		"outputs": map[string]string{"environment": "said"},
	})
	require.NoError(t, err)
	req.Parameters = map[string]string{"size": "small"}
	for range 2 {
		made, err := c.Create(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"TOKEN": "none", "SIZE": "small", "URL": strings.TrimSuffix(c.url, "/api/v1/terraform/state")},
			made.Environment)
	}
	require.NoError(t, c.Delete(t.Context(), refTo(req)))
}
