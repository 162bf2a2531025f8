package terraform_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
)

// upload stores a directory of files, and returns its digest. Those whose names end in .sh are executable.
func (c *cloud) upload(files map[string]string) string {
	c.t.Helper()
	dir := c.t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		require.NoError(c.t, os.WriteFile(path, []byte(content), mode))
	}
	archive, err := modules.Pack(dir)
	require.NoError(c.t, err)
	digest := modules.Digest(archive)
	_, _, err = c.states.StoreArchive(c.t.Context(), c.states.Store, auth.DefaultOrganizationID, digest, archive)
	require.NoError(c.t, err)
	return digest
}

// fromArchive is a create of what was uploaded.
func (c *cloud) fromArchive(name, digest string) provider.CreateRequest {
	c.t.Helper()
	req := c.request(name, "", false)
	var err error
	req.Spec, err = json.Marshal(map[string]any{"module": digest, "variables": map[string]string{"cloud": c.dir}, "outputs": map[string]string{"addresses": "said"}})
	require.NoError(c.t, err)
	return req
}

func (c *cloud) count(sql string) (n int) {
	c.t.Helper()
	require.NoError(c.t, c.states.Store.Pool.QueryRow(c.t.Context(), sql).Scan(&n))
	return n
}

// The files of a directory are there when it is applied and when it is destroyed, in their places and as executable as they were. The
// workspace keeps their digest, and no copy.
func TestArchive(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	digest := c.upload(map[string]string{
		"main.tf": `
			variable "cloud" { type = string }
			module "machine" {
			  source = "./machine"
			  cloud  = var.cloud
			}
			output "said" { value = file("${path.module}/machine/said.txt") }
		`,
		"machine/main.tf": `
			variable "cloud" { type = string }
			resource "terraform_data" "machine" {
			  input = { script = "${path.module}/make.sh", cloud = var.cloud }
			  provisioner "local-exec" { command = "${self.output.script} touch ${self.output.cloud}" }
			  provisioner "local-exec" {
			    when    = destroy
			    command = "${self.output.script} rm ${self.output.cloud}"
			  }
			}
		`,
		"machine/said.txt": "from-a-file",
		"machine/make.sh":  "#!/bin/sh\n\"$1\" \"$2/made\"\n",
	})
	_, err := c.states.Store.Pool.Exec(t.Context(), "UPDATE terraform_modules SET used_at = now() - interval '1 year'")
	require.NoError(t, err)
	req := c.fromArchive("a", digest)
	require.Empty(t, c.Validate(req.Spec, nil))
	made, err := c.Create(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, []provider.Address{{Type: "tcp", Address: "from-a-file"}}, made.Addresses)
	require.Equal(t, []string{"made"}, c.files())

	kept, err := c.states.Module(t.Context(), req.Tags.WorkspaceID)
	require.NoError(t, err)
	require.Contains(t, string(kept), digest)
	require.NotContains(t, string(kept), "from-a-file")
	require.Equal(t, 1, c.count("SELECT count(*) FROM terraform_modules WHERE used_at > now() - interval '1 hour'"), "retention looks again")
	require.Equal(t, 1, c.count("SELECT count(*) FROM terraform_runs WHERE archive = '"+digest+"'"))
	var before struct{ Files map[string]string } // how a server that knows no archives reads it
	require.Error(t, json.Unmarshal(kept, &before), "it must not destroy without the files")

	require.NoError(t, c.Delete(t.Context(), refTo(req)))
	require.Empty(t, c.files())
}

// What is stored is looked at again before it is run: one byte of it is other, or it is not there. Nothing is made then.
func TestArchive_changed(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	digest := c.upload(map[string]string{"main.tf": `output "said" { value = "x" }`})
	_, err := c.states.Store.Pool.Exec(t.Context(), "UPDATE terraform_modules SET archive = overlay(archive placing 'y' from 530)")
	require.NoError(t, err)
	_, err = c.Create(t.Context(), c.fromArchive("a", digest))
	require.ErrorContains(t, err, "what is stored has the digest sha256:")
	_, err = c.states.Store.Pool.Exec(t.Context(), "DELETE FROM terraform_modules")
	require.NoError(t, err)
	_, err = c.Create(t.Context(), c.fromArchive("b", digest))
	require.ErrorContains(t, err, "is not stored")
	require.False(t, provider.IsPermanent(err), "it may be uploaded again")
	require.Zero(t, c.count("SELECT count(*) FROM terraform_states"))
}

// What was kept before there were archives is destroyed as it was.
func TestArchive_keptBefore(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	req := c.request("a", c.machine("x", "true"), false)
	_, err := c.Create(t.Context(), req)
	require.NoError(t, err)
	kept, err := c.states.Module(t.Context(), req.Tags.WorkspaceID)
	require.NoError(t, err)
	var before struct { // as the release before writes it
		Files      map[string]string `json:"files"`
		Variables  map[string]string `json:"variables"`
		Idempotent bool              `json:"idempotent,omitempty"`
		Workspace  json.RawMessage   `json:"workspace"`
	}
	require.NoError(t, json.Unmarshal(kept, &before))
	old, err := json.Marshal(before)
	require.NoError(t, err)
	require.JSONEq(t, string(old), string(kept), "that release reads what this one writes")
	run, err := c.states.BeginAlone(t.Context(), req.Tags.WorkspaceID, "a", 1)
	require.NoError(t, err)
	require.NoError(t, c.states.KeepModule(t.Context(), run.WorkspaceID, run.Token, old, ""))
	require.Equal(t, []string{"x"}, c.files())
	require.NoError(t, c.Delete(t.Context(), refTo(req)))
	require.Empty(t, c.files(), "the provisioner of its destruction has run")
}

func TestValidate_module(t *testing.T) {
	t.Parallel()
	p := &terraform.Provider{}
	digest := "sha256:" + strings.Repeat("0a", 32)
	for module, says := range map[string]string{
		`"` + digest + `"`:                  "",
		`{"main.tf": ""}`:                   "",
		`"./vm"`:                            "apply the file with the command line (prewarm apply)",
		`"` + strings.ToUpper(digest) + `"`: "apply the file with the command line",
		`"` + digest + `0"`:                 "apply the file with the command line",
		`""`:                                "apply the file with the command line",
		`7`:                                 "must be a mapping",
		`null`:                              "must be a mapping",
	} {
		spec := json.RawMessage(`{"module": ` + module + `}`)
		problems := p.Validate(spec, nil)
		if says == "" {
			require.Empty(t, problems, module)
		} else {
			require.NotEmpty(t, problems, module)
			require.Equal(t, "module", problems[0].Path)
			require.Contains(t, problems[0].Message, says, module)
		}
		want := ""
		if module == `"`+digest+`"` {
			want = digest
		}
		require.Equal(t, want, p.ArchiveOf(spec), module)
	}
}
