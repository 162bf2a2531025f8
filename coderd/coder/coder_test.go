package coder_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coder"
	"github.com/prewarm-dev/prewarm/coderd/modules"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

// What each directory becomes, and what is not carried over.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docker", "kubernetes", "presets"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("testdata", name)
			archive, err := modules.Pack(dir)
			require.NoError(t, err)
			files, err := modules.Read(archive)
			require.NoError(t, err)
			template, err := coder.Read(files)
			require.NoError(t, err)
			document, err := template.Document(coder.As{Name: name, Module: "./" + name, Provider: "terraform", Declare: true})
			require.NoError(t, err)
			var left strings.Builder
			for _, l := range template.Left {
				left.WriteString(l.String() + "\n")
			}
			is, golden := document+"---\n"+left.String(), dir+".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(is), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), is)
		})
	}
}

func read(t *testing.T, main string) *coder.Template {
	t.Helper()
	template, err := coder.Read([]modules.File{{Name: "main.tf", Content: []byte(main)}})
	require.NoError(t, err)
	return template
}

// What only a run knows is listed with its place, and never guessed.
func TestRead_unknown(t *testing.T) {
	t.Parallel()
	for main, says := range map[string]string{
		`data "coder_parameter" "a" { name = var.none }`:                                                      "main.tf:1: data.coder_parameter.a: only a run knows its name",
		"data \"coder_parameter\" \"a\" {\n  name = \"a\"\n  default = timestamp()\n}":                        "main.tf:3: data.coder_parameter.a.default: only a run knows it",
		`data "coder_parameter" "a" { name = "a b" }`:                                                         `"a b" cannot be the name`,
		`data "coder_parameter" "a" { name = "a" }`:                                                           "preset default: parameter a has no default",
		"data \"coder_workspace_preset\" \"a\" {\n  name = \"a\"\n  parameters = local.none\n}":               "main.tf:3: data.coder_workspace_preset.a.parameters: only a run",
		"data \"coder_workspace_preset\" \"a\" {\n  name = \"a\"\n  prebuilds {\n    instances = f()\n  }\n}": "main.tf:3: data.coder_workspace_preset.a.prebuilds.instances",
		"resource \"coder_agent\" \"a\" {\n  os = \"windows\"\n  arch = \"amd64\"\n}":                         "main.tf:2: coder_agent.a.os: there is no agent for windows",
		"resource \"coder_agent\" \"a\" {\n  auth = \"aws-instance-identity\"\n}":                             "main.tf:2: coder_agent.a.auth",
		"resource \"coder_agent\" \"a\" {}\nresource \"coder_agent\" \"b\" {}":                                "main.tf:2: coder_agent.b: a workspace has one agent",
		`data "coder_external_auth" "a" { id = "a" }`:                                                         "data.coder_external_auth.a: no access token",
		`resource "coder_new" "a" {}`:                                                                         "coder_new.a: Prewarm has nothing like it",
	} {
		left := ""
		for _, l := range read(t, main).Left {
			left += l.String() + "\n"
		}
		require.Contains(t, left, says, main)
	}
	_, err := coder.Read([]modules.File{{Name: "main.tf", Content: []byte("resource {")}})
	require.ErrorContains(t, err, "main.tf:1")
	_, err = coder.Read([]modules.File{{Name: "README.md"}})
	require.ErrorContains(t, err, "is it the right directory?")
}

func TestName(t *testing.T) {
	t.Parallel()
	for text, name := range map[string]string{
		"GoLand: Large": "goland-large", "a_b": "a-b", "": "default", "日本": "default", strings.Repeat("a", 63) + " b": strings.Repeat("a", 63),
	} {
		require.Equal(t, name, coder.Name(text))
	}
	two := read(t, "data \"coder_workspace_preset\" \"a\" { name = \"A!\" }\ndata \"coder_workspace_preset\" \"b\" { name = \"A?\" }")
	require.Equal(t, "a", two.Presets[0].Name)
	require.Equal(t, "a-2", two.Presets[1].Name)
}
