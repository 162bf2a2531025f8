package external_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudbase/garm-provider-common/params"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/conformance"
	"github.com/prewarm-dev/prewarm/coderd/provider/external"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
)

// The executable sees the protocol's variables and the configured ones, and nothing of the server's.
func TestEnvironment(t *testing.T) {
	t.Setenv("PREWARM_TEST_SECRET", "of the server")
	for _, protocol := range []string{"v0.1.0", "v0.1.1"} {
		s := newSite(t, externaltest.Config{})
		file := filepath.Join(s.dir, "token")
		require.NoError(t, os.WriteFile(file, []byte("first\n"), 0o600))
		s.config["interface_version"] = protocol
		s.config["environment"] = map[string]string{"HTTPS_PROXY": "http://proxy:3128"}
		s.config["environment_from_files"] = map[string]string{"CLOUD_TOKEN": file}
		p, req := s.open(), s.request("seen")
		i, err := p.Create(t.Context(), req)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte("renewed\n"), 0o600))
		ref := provider.Ref{Name: req.Name, ProviderID: i.ProviderID, WorkspaceID: req.Tags.WorkspaceID}
		_, err = p.Get(t.Context(), ref)
		require.NoError(t, err)
		must(t, p.Stop, ref)
		must(t, p.Start, ref)
		must(t, p.Delete, ref)

		base := map[string]string{
			"GARM_PROVIDER_CONFIG_FILE": filepath.Join(s.dir, "config.json"),
			"GARM_CONTROLLER_ID":        s.installation.String(),
			"GARM_INTERFACE_VERSION":    protocol,
			"HTTPS_PROXY":               "http://proxy:3128",
			"CLOUD_TOKEN":               "renewed",
			"PWD":                       "", // the shell's and libc's business
		}
		for command, more := range map[string][]string{
			"GetVersion": nil, "CreateInstance": {"GARM_POOL_ID"}, "ListInstances": {"GARM_POOL_ID"},
			"GetInstance": {"GARM_INSTANCE_ID"}, "StopInstance": {"GARM_INSTANCE_ID"},
			"StartInstance": {"GARM_INSTANCE_ID"}, "DeleteInstance": {"GARM_INSTANCE_ID"},
		} {
			if protocol == "v0.1.1" {
				more = append(slices.Clone(more), "GARM_POOL_ID", "GARM_POOL_EXTRASPECS")
			}
			calls := s.calls(command)
			require.NotEmpty(t, calls, command)
			call := calls[len(calls)-1]
			got := map[string]string{}
			for _, kv := range call.Env {
				key, value, _ := strings.Cut(kv, "=")
				got[key] = value
			}
			want := maps.Clone(base)
			want["GARM_COMMAND"] = command
			if command == "GetVersion" || command == "CreateInstance" || command == "ListInstances" {
				want["CLOUD_TOKEN"] = "first"
			}
			for _, key := range more {
				want[key] = got[key]
				assert.NotEmpty(t, got[key], "%s %s", command, key)
			}
			delete(want, "PWD")
			delete(got, "PWD")
			assert.Equal(t, want, got, command)
			assert.Equal(t, s.dir, call.Dir)
			if more != nil && command != "GetVersion" && got["GARM_INSTANCE_ID"] != "" {
				assert.Equal(t, i.ProviderID, got["GARM_INSTANCE_ID"])
			}
		}
	}
}

// What a create sends, with everything that can be said, and with nothing said that need not be.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	s.config["defaults"] = map[string]any{
		"image": "debian", "flavor": "tiny", "extra_specs": map[string]any{"disk_gb": 5},
	}
	p := s.open()
	sent := func(req provider.CreateRequest) (b params.BootstrapInstance, extraSpecs string) {
		_, err := p.Create(t.Context(), req)
		require.NoError(t, err)
		calls := s.calls("CreateInstance")
		call := calls[len(calls)-1]
		require.NoError(t, json.Unmarshal(call.Stdin, &b))
		for _, kv := range call.Env {
			if value, ok := strings.CutPrefix(kv, "GARM_POOL_EXTRASPECS="); ok {
				raw, err := base64.StdEncoding.DecodeString(value)
				require.NoError(t, err)
				extraSpecs = string(raw)
			}
			if value, ok := strings.CutPrefix(kv, "GARM_POOL_ID="); ok {
				assert.Equal(t, b.PoolID, value)
			}
		}
		return b, extraSpecs
	}
	req := s.request("little")
	req.Spec, req.Parameters = json.RawMessage(`{}`), map[string]string{"flavor": "large", "region": "north"}
	b, extraSpecs := sent(req)
	assert.True(t, strings.HasPrefix(b.Name, "little-"), b.Name)
	assert.Equal(t, "debian", b.Image)
	assert.Equal(t, "large", b.Flavor, "a parameter of that name stands for the spec's")
	assert.Equal(t, params.Linux, b.OSType)
	assert.Equal(t, params.Amd64, b.OSArch)
	assert.Equal(t, "https://prewarm.invalid/default/vm", b.RepoURL)
	assert.Len(t, b.Tools, 1)
	assert.JSONEq(t, extraSpecs, string(b.ExtraSpecs))
	assert.JSONEq(t, `{"disk_gb": 5, "runner_install_template": "IyEvYmluL3NoCmV4aXQgMAo="}`, extraSpecs)

	tool := func(arch string) provider.Tool {
		return provider.Tool{OS: "linux", Arch: arch, URL: "https://forge.example/" + arch, Filename: arch + ".tar.gz", Token: "a token of " + arch}
	}
	req = s.request("runner")
	req.Spec, req.Runner = json.RawMessage(`{}`), &provider.Runner{
		Group: "builders", Labels: []string{"linux", "x64"}, Tools: []provider.Tool{tool("arm64"), tool("x64")},
		URL: "https://forge.example/acme", JIT: true, CABundle: []byte("one of the forge's\nanother"),
	}
	req.Callback = provider.Callback{Token: "secret", CABundle: []byte("the server's\n")}
	b, _ = sent(req)
	assert.Equal(t, "https://forge.example/acme", b.RepoURL)
	assert.True(t, b.JitConfigEnabled)
	assert.Equal(t, b.Name, p.RunnerName(req.Name, req.Tags.WorkspaceID), "it registers by that name")
	assert.JSONEq(t, `{"disk_gb": 5}`, string(b.ExtraSpecs), "without an agent it is the executable that installs the runner")
	assert.Equal(t, "the server's\none of the forge's\nanother\n", string(b.CACertBundle))
	require.Len(t, b.Tools, 1)
	assert.Equal(t, "https://forge.example/x64", b.Tools[0].GetDownloadURL())
	assert.Equal(t, "a token of x64", b.Tools[0].GetTempDownloadToken())
	assert.Equal(t, []string{"linux", "x64"}, b.Labels)
	assert.Equal(t, "builders", b.GitHubRunnerGroup)

	req = s.request("old")
	req.Spec, req.Runner = json.RawMessage(`{"repo_url": "https://other.example/o"}`), &provider.Runner{URL: "https://forge.example/acme"}
	req.Callback = provider.Callback{Token: "secret", InstallScript: []byte("agent")}
	b, _ = sent(req)
	assert.Equal(t, "https://forge.example/acme", b.RepoURL, "what its preset says is true of it")
	assert.False(t, b.JitConfigEnabled, "a forge without such configurations")
	before := len(s.calls("CreateInstance"))
	req = s.request("nowhere")
	req.Spec, req.Runner = json.RawMessage(`{}`), &provider.Runner{Tools: []provider.Tool{tool("arm64")}}
	_, err := p.Create(t.Context(), req)
	require.ErrorContains(t, err, "the forge has no runner for linux on x64")
	require.True(t, provider.IsPermanent(err))
	require.Len(t, s.calls("CreateInstance"), before, "the executable was not called")
	req.Runner = &provider.Runner{}
	_, err = p.Create(t.Context(), req)
	require.ErrorContains(t, err, "the forge offers no download of its runner", "Gitea, whose runner the stock script cannot install")
	require.True(t, provider.IsPermanent(err))
	require.Len(t, s.calls("CreateInstance"), before, "the executable was not called")

	req = s.request("all")
	req.Spec = json.RawMessage(`{"image": "ubuntu", "flavor": "small", "os_arch": "amd64", "labels": ["gpu"],
		"ssh_keys": ["ssh-ed25519 AAAA"], "repo_url": "https://git.example/o/r", "runner_group": "default",
		"user_data": {"disable_updates_on_boot": true, "extra_packages": ["jq"]},
		"extra_specs": {"disk_gb": 40}}`)
	req.Callback = provider.Callback{
		CallbackURL: "https://p/status", MetadataURL: "https://p/metadata", Token: "secret", InstallScript: []byte("agent"),
	}
	b, extraSpecs = sent(req)
	assert.Equal(t, "ubuntu", b.Image)
	assert.Equal(t, []string{"gpu"}, b.Labels)
	assert.Equal(t, []string{"ssh-ed25519 AAAA"}, b.SSHKeys)
	assert.Equal(t, "https://git.example/o/r", b.RepoURL)
	assert.Equal(t, "default", b.GitHubRunnerGroup)
	assert.Equal(t, params.UserDataOptions{DisableUpdatesOnBoot: true, ExtraPackages: []string{"jq"}}, b.UserDataOptions)
	assert.Equal(t, "https://p/status", b.CallbackURL)
	assert.Equal(t, "https://p/metadata", b.MetadataURL)
	assert.Equal(t, "secret", b.InstanceToken)
	assert.JSONEq(t, `{"disk_gb": 40, "runner_install_template": "YWdlbnQ="}`, extraSpecs)
	assert.Empty(t, b.CACertBundle)

	req = s.request("authorities")
	req.Spec = json.RawMessage(`{"image": "ubuntu", "flavor": "small", "ca_bundle": ` + strconv.Quote(certificate) + `}`)
	req.Callback = provider.Callback{Token: "secret", CABundle: []byte("the server's\n")}
	b, _ = sent(req)
	assert.Equal(t, certificate+"\nthe server's\n", string(b.CACertBundle), "both are trusted")

	req = s.request("windows")
	req.Spec = json.RawMessage(`{"image": "windows", "flavor": "small", "os_type": "windows"}`)
	req.Callback = provider.Callback{Token: "secret", InstallScript: []byte("agent")}
	_, err = p.Create(t.Context(), req)
	assert.True(t, provider.IsPermanent(err))
	assert.ErrorContains(t, err, "the agent is installed on linux only")
}

const certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"

// An agent can be had where there is a place for the script that installs it, and every instance gets a token.
func TestOffered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault       externaltest.Fault
		noStop      bool
		script      string
		hosts, stop bool
	}{
		{hosts: true, stop: true},
		{noStop: true, hosts: true},
		{fault: externaltest.NoSchema, stop: true},
		{fault: externaltest.NoSchema, noStop: true},
		{fault: externaltest.NoSchema, script: "runner_install_template", hosts: true, stop: true},
		{script: "none", stop: true},
	} {
		s := newSite(t, externaltest.Config{Fault: c.fault})
		s.config["no_stop"], s.config["install_script"] = c.noStop, c.script
		p := s.open().Offered()
		_, hosts := provider.As[provider.AgentHost](p)
		_, stops := provider.As[provider.Stopper](p)
		_, takes := provider.As[provider.TokenTaker](p)
		assert.Equal(t, []bool{c.hosts, c.stop, true}, []bool{hosts, stops, takes}, "%+v", c)
	}
}

// An executable without a schema can be used, and checks nothing beforehand.
func TestNoSchema(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.NoSchema})
	p := s.open()
	assert.Equal(t, "v1.2.3", p.Version())
	assert.Equal(t, "v0.1.1", p.Interface())
	assert.Empty(t, p.Validate(json.RawMessage(`{"image": "u", "flavor": "s", "extra_specs": {"any": 1}}`), nil))
	req := s.request("plain")
	req.Spec = json.RawMessage(`{"image": "u", "flavor": "s"}`)
	_, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	var b params.BootstrapInstance
	require.NoError(t, json.Unmarshal(s.calls("CreateInstance")[0].Stdin, &b))
	assert.JSONEq(t, `{}`, string(b.ExtraSpecs), "no script for who may not know what to do with it")
}

// One that speaks v0.1.0 has no schema, so that its configuration says whether it takes a script at the first boot. Where it does
// not say so, an agent is refused with the reason, and the check finds out.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	check := func(p *external.Provider, s *site) error {
		for _, c := range conformance.Cases() {
			if c.Name == "FirstBootScript" {
				return c.Run(t.Context(), conformance.Subject{Provider: p, Installation: s.installation, Spec: json.RawMessage(good)})
			}
		}
		return errors.New("there is no such case")
	}
	for _, c := range []struct {
		name            string
		config          externaltest.Config
		script          string
		noAgent, refuse string // part of the reason; empty: none
		sent            bool
	}{
		{"not told", externaltest.Config{Protocol: "v0.1.0"}, "", "v0.1.0, gives no schema", "set install_script: runner_install_template", false},
		{"told", externaltest.Config{Protocol: "v0.1.0"}, "runner_install_template", "", "", true},
		{"told that it takes none", externaltest.Config{Protocol: "v0.1.0"}, "none", "install_script: none", "set install_script: runner_install_template", false},
		{"takes none", externaltest.Config{Protocol: "v0.1.0", Fault: externaltest.IgnoresScript}, "", "gives no schema", "", false},
		{"told, and takes none", externaltest.Config{Protocol: "v0.1.0", Fault: externaltest.IgnoresScript}, "runner_install_template", "", "set install_script: none", true},
		{"by its schema", externaltest.Config{}, "", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.config)
			s.config["install_script"] = c.script
			p := s.open()
			if c.noAgent == "" {
				assert.Empty(t, p.Spoken().NoAgent)
			} else {
				assert.Contains(t, p.Spoken().NoAgent, c.noAgent)
			}
			err := check(p, s)
			if c.refuse == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.refuse)
			}
			_, err = p.Create(t.Context(), s.request("plain"))
			require.NoError(t, err)
			var b params.BootstrapInstance
			calls := s.calls("CreateInstance")
			require.NoError(t, json.Unmarshal(calls[len(calls)-1].Stdin, &b))
			var extra struct {
				Script []byte `json:"runner_install_template"`
			}
			require.NoError(t, json.Unmarshal(b.ExtraSpecs, &extra))
			assert.Equal(t, c.sent, string(extra.Script) == "#!/bin/sh\nexit 0\n", "%s", extra.Script)
		})
	}
}

// Versions and schemas are asked for once, and readiness of many with few calls.
func TestFewCalls(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	p := s.open()
	var refs []provider.Ref
	for _, name := range []string{"a", "b", "c"} {
		req := s.request(name)
		_, err := p.Create(t.Context(), req)
		require.NoError(t, err)
		refs = append(refs, refOf(req))
	}
	before := len(s.calls("ListInstances"))
	for range 20 {
		for _, ref := range refs {
			ready, err := p.Ready(t.Context(), ref)
			require.NoError(t, err)
			require.True(t, ready.Ready)
		}
	}
	assert.Empty(t, s.calls("GetInstance"))
	assert.LessOrEqual(t, len(s.calls("ListInstances"))-before, 6, "sixty questions within a few seconds")
	assert.Len(t, s.calls("GetExtraSpecsJSONSchema"), 1)

	must(t, p.Delete, refs[0])
	_, err := p.Ready(t.Context(), refs[0])
	require.ErrorIs(t, err, provider.ErrNotFound, "what is known to be deleted is not ready any more")
}

// Another incarnation cannot be made, and a name that is too long for the cloud is refused.
func TestWhatTheProtocolCannotCarry(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	p := s.open()
	req := s.request("again")
	req.Tags.Incarnation = 2
	_, err := p.Create(t.Context(), req)
	assert.True(t, provider.IsPermanent(err), "%v", err)
	_, err = p.Create(t.Context(), s.request(strings.Repeat("x", 37)))
	assert.True(t, provider.IsPermanent(err), "%v", err)
	_, err = p.Create(t.Context(), s.request(strings.Repeat("x", 36)))
	require.NoError(t, err)
}

// An executable that cannot stop is not asked to.
func TestNoStop(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	_, offered := provider.As[provider.Stopper](s.open().Offered())
	assert.True(t, offered)
	s.config["no_stop"] = true
	p := s.open()
	_, offered = provider.As[provider.Stopper](p.Offered())
	assert.False(t, offered)
	list, err := p.Offered().List(t.Context(), s.installation)
	require.NoError(t, err)
	assert.Empty(t, list)
}

// What an executable made twice is deleted with one call by name.
func TestDuplicatesAreDeletedTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{Fault: externaltest.DuplicateIsMade})
	p, req := s.open(), s.request("double")
	_, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	dir := filepath.Join(s.dir, "cloud", s.installation.String())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	require.NoError(t, err)
	second := strings.Replace(string(raw), files[0].Name(), "ref-second", 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "second"), []byte(second), 0o600))
	require.Equal(t, 2, s.files())
	must(t, p.Delete, refOf(req))
	assert.Zero(t, s.files())
}

// Two installations with one controller id and pools of their own do not see each other.
func TestPoolsKeepInstallationsApart(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	s.config["controller_id"] = uuid.NewString()
	ours, theirs := s.open(), s.foreign()
	_, err := ours.Create(t.Context(), s.request("ours"))
	require.NoError(t, err)
	list, err := theirs.List(t.Context(), uuid.NewSHA1(s.installation, []byte("foreign")))
	require.NoError(t, err)
	assert.Empty(t, list)
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	s := newSite(t, externaltest.Config{})
	executable, file := s.config["executable"], s.config["config_file"]
	for want, change := range map[string]map[string]any{
		`unknown field "surprise"`:               {"surprise": 1},
		"absolute path of a file, not \"ref\"":   {"executable": "ref"},
		"no such file":                           {"config_file": "/no/such"},
		"is not a file":                          {"config_file": s.dir},
		"may not be executed":                    {"executable": file},
		`"v9" is neither v0.1.0 nor v0.1.1`:      {"interface_version": "v9"},
		`"p" is not a UUID`:                      {"pool_id": "p"},
		"are the protocol's":                     {"environment": map[string]string{"GARM_COMMAND": "x"}},
		"is not a name":                          {"environment": map[string]string{"A=B": "x"}},
		"is in environment too":                  {"environment": map[string]string{"A": ""}, "environment_from_files": map[string]any{"A": file}},
		"environment_from_files: B: file: stat":  {"environment_from_files": map[string]string{"B": "/no/such"}},
		`"soon" is not a duration`:               {"timeouts": map[string]string{"create": "soon"}},
		"cannot unmarshal array into Go struct ": {"environment": []string{}},
	} {
		config := map[string]any{"executable": executable, "config_file": file}
		maps.Copy(config, change)
		raw, err := json.Marshal(config)
		require.NoError(t, err)
		_, err = external.ParseConfig(raw)
		require.ErrorContains(t, err, want)
	}
	s.config["defaults"] = map[string]any{"flavour": "small"}
	_, err := external.New(t.Context(), s.options())
	require.ErrorContains(t, err, "defaults: check spec: flavour: is not known here")

	s = newSite(t, externaltest.Config{CreateMS: -1})
	_, err = external.New(t.Context(), s.options())
	require.ErrorContains(t, err, "config_file", "the executable's own schema of its configuration")
}
