package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"cdr.dev/slog"
	"github.com/cloudbase/garm-provider-common/execution/common"
	"github.com/cloudbase/garm-provider-common/params"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// creating is common to all providers of this process, since one that is replaced by another of the same name goes on
// for whoever has it.
var creating provider.Turns

// Create makes the workspace, or finds the one it made before. It looks first: not every executable minds a second
// resource of the same name.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	none := provider.Instance{}
	if err := checkName(req.Name); err != nil {
		return none, err
	}
	if req.Tags.Incarnation != 1 {
		return none, provider.Permanent(xerrors.Errorf("the GARM protocol cannot make incarnation %d of a workspace",
			req.Tags.Incarnation))
	}
	s, problems := p.parseSpec(req.Spec, req.Parameters)
	if len(problems) > 0 {
		return none, provider.SpecError(problems)
	}
	if _, own := s.ExtraSpecs[installTemplate]; s.OSType == params.Windows && req.Callback.InstallScript != nil && !own {
		return none, provider.Permanent(xerrors.New(
			"the agent is installed on linux only: leave agent out of the template, or install it by extra_specs." + installTemplate))
	}
	if _, err := tools(s, req.Runner); err != nil {
		return none, err
	}
	if r := req.Runner; r != nil && len(r.Tools) == 0 && req.Callback.InstallScript == nil && p.installsRunner(s) {
		return none, provider.Permanent(xerrors.New("the forge offers no download of its runner, which the executable's own script would " +
			"install. Add an agent to the template, or a script of your own as extra_specs." + installTemplate))
	}
	unlock, err := creating.Take(ctx, p.config.Executable+" "+p.config.ConfigFile+" "+req.Name)
	if err != nil {
		return none, err
	}
	defer unlock()
	i, found, err := p.existing(ctx, req)
	switch {
	case err != nil:
		return none, err
	case found && i.Status != provider.StatusStopped:
		return i, nil
	case found:
		p.log.Info(ctx, "deleting what an interrupted create left", slog.F("workspace", req.Name))
		if err := p.deleteInstance(ctx, req.Tags.Installation, i.ProviderID); err != nil {
			return none, xerrors.Errorf("delete what an interrupted create left: %w", err)
		}
	}
	return p.createInstance(ctx, req, s)
}

// existing looks whether there is something of that name, and whose.
func (p *Provider) existing(ctx context.Context, req provider.CreateRequest) (provider.Instance, bool, error) {
	list, err := p.list(ctx, req.Tags.Installation)
	if err != nil {
		return provider.Instance{}, false, err
	}
	for _, i := range list {
		if i.Name != req.Name {
			continue
		}
		if i.Tags != req.Tags {
			return i, true, provider.ErrConflict
		}
		return i, true, nil
	}
	return provider.Instance{}, false, nil
}

func (p *Provider) createInstance(ctx context.Context, req provider.CreateRequest, s spec) (provider.Instance, error) {
	none := provider.Instance{}
	name := resourceName(req.Name, req.Tags.WorkspaceID)
	bootstrap := p.bootstrap(name, req, s)
	stdin, err := json.Marshal(bootstrap)
	if err != nil {
		return none, xerrors.Errorf("encode request: %w", err)
	}
	var hidden secrets
	hidden.add(req.Callback.Token)
	if req.Runner != nil {
		for _, t := range req.Runner.Tools {
			hidden.add(t.Token)
		}
	}
	var answer params.ProviderInstance
	err = p.ask(ctx, request{
		command: common.CreateInstanceCommand, installation: req.Tags.Installation,
		extraSpecs: bootstrap.ExtraSpecs, stdin: stdin, secrets: hidden,
	}, &answer)
	switch {
	case exitedWith(err, exitNotFound):
		return none, provider.Permanent(xerrors.Errorf(
			"the provider says that something which the spec names does not exist, such as the flavor %q or the image %q: %w",
			s.Flavor, s.Image, err))
	case exitedWith(err, exitDuplicate):
		// Somebody was quicker. What is whole by now is what was asked for; what is not may still be in the making.
		i, found, lookErr := p.existing(ctx, req)
		if lookErr == nil && found && i.Status == provider.StatusRunning {
			return i, nil
		}
		return none, err
	case err != nil:
		return none, err
	}
	answer.Name = cmp.Or(answer.Name, name)
	i, ok := instanceOf(answer, req.Tags.Installation)
	if !ok || i.Tags != req.Tags || i.Name != req.Name {
		return none, provider.Permanent(xerrors.Errorf("the provider made %q when asked for %q: it must keep names", answer.Name,
			name))
	}
	return i, nil
}

// bootstrap is a create as the protocol has it.
func (p *Provider) bootstrap(name string, req provider.CreateRequest, s spec) params.BootstrapInstance {
	// Of the reserved domain .invalid: nobody can ever answer there. Executables take the last two elements of the
	// repository's path for its owner and name.
	const nowhere = "https://prewarm.invalid"
	b := params.BootstrapInstance{
		Name:              name,
		Tools:             placeholderTools(s),
		RepoURL:           fmt.Sprintf("%s/%s/%s", nowhere, req.Organization, req.Template),
		CallbackURL:       nowhere,
		MetadataURL:       nowhere,
		InstanceToken:     req.Callback.Token,
		SSHKeys:           s.SSHKeys,
		ExtraSpecs:        p.withInstallScript(s, req.Callback.InstallScript, req.Runner != nil),
		GitHubRunnerGroup: s.RunnerGroup,
		CACertBundle:      authorities([]byte(s.CABundle), req.Callback.CABundle, forgeBundle(req.Runner)),
		OSArch:            s.OSArch,
		OSType:            s.OSType,
		Flavor:            s.Flavor,
		Image:             s.Image,
		Labels:            s.Labels,
		PoolID:            p.pool(req.Tags.Installation),
		UserDataOptions:   s.UserData,
	}
	if s.RepoURL != "" {
		b.RepoURL = s.RepoURL
	}
	if r := req.Runner; r != nil { // what its preset says is true of it, whatever the spec does
		b.Labels, b.GitHubRunnerGroup, b.JitConfigEnabled = r.Labels, r.Group, r.JIT
		if r.URL != "" {
			b.RepoURL = r.URL
		}
		if downloads, err := tools(s, r); err == nil && downloads != nil {
			b.Tools = downloads
		}
	}
	if req.Callback.CallbackURL != "" {
		b.CallbackURL, b.MetadataURL = req.Callback.CallbackURL, req.Callback.MetadataURL
	}
	if b.Labels == nil {
		b.Labels = []string{}
	}
	return b
}

// authorities are all of these bundles, each with an end of its last line: what runs inside is to trust every one.
func authorities(bundles ...[]byte) []byte {
	var all []byte
	for _, bundle := range bundles {
		if bundle = bytes.TrimRight(bundle, "\n"); len(bundle) > 0 {
			all = append(append(all, bundle...), '\n')
		}
	}
	return all
}

// forgeBundle are the authorities of the forge; none for what is no runner.
func forgeBundle(r *provider.Runner) []byte {
	if r == nil {
		return nil
	}
	return r.CABundle
}

// tools are the downloads of a forge's runner for the platform of the spec (P5); none where the forge has none at all. That it
// has some, but not for this platform, is an error: what would be made could never work.
func tools(s spec, r *provider.Runner) ([]params.RunnerApplicationDownload, error) {
	if r == nil || len(r.Tools) == 0 {
		return nil, nil
	}
	placeholder := placeholderTools(s)[0] // in the forge's words for the platform
	var some []params.RunnerApplicationDownload
	for _, t := range r.Tools {
		if t.OS != placeholder.GetOS() || t.Arch != placeholder.GetArchitecture() {
			continue
		}
		d := params.RunnerApplicationDownload{OS: &t.OS, Architecture: &t.Arch, DownloadURL: &t.URL, Filename: &t.Filename}
		if t.SHA256 != "" {
			d.SHA256Checksum = &t.SHA256
		}
		if t.Token != "" {
			d.TempDownloadToken = &t.Token
		}
		some = append(some, d)
	}
	if some == nil {
		return nil, provider.Permanent(xerrors.Errorf("the forge has no runner for %s on %s: set os_type and os_arch of the spec",
			placeholder.GetOS(), placeholder.GetArchitecture()))
	}
	return some, nil
}

// placeholderTools stand for a download of a forge's runner: executables refuse an empty list, and one without their OS
// and architecture, in the forge's words for these.
func placeholderTools(s spec) []params.RunnerApplicationDownload {
	osName := cmp.Or(map[params.OSType]string{params.Windows: "win"}[s.OSType], string(s.OSType))
	arch := cmp.Or(map[params.OSArch]string{params.Amd64: "x64", params.I386: "x86"}[s.OSArch], string(s.OSArch))
	file, url := "no-runner.tar.gz", "https://prewarm.invalid/no-runner.tar.gz"
	return []params.RunnerApplicationDownload{{OS: &osName, Architecture: &arch, Filename: &file, DownloadURL: &url}}
}

// noRunner is what an instance runs at its first boot where nothing else is said: without it, executables would have it
// install a runner that does not exist.
const noRunner = "#!/bin/sh\nexit 0\n"

// installTemplate is the key of extra specs that takes the script which an instance runs at its first boot.
const installTemplate = "runner_install_template"

// noScript is the setting for an executable that takes no such script.
const noScript = "none"

// withInstallScript are the extra specs with the script that an instance runs at its first boot, where the executable takes
// one and the spec doesn't say otherwise. A runner without an agent is installed by the executable's own.
func (p *Provider) withInstallScript(s spec, script []byte, runner bool) json.RawMessage {
	const key = installTemplate
	if _, set := s.ExtraSpecs[key]; set || !p.takesScript() || script == nil && (runner || s.OSType == params.Windows) {
		return s.extraSpecs()
	}
	if script == nil {
		script = []byte(noRunner)
	}
	with := spec{ExtraSpecs: map[string]json.RawMessage{}}
	maps.Copy(with.ExtraSpecs, s.ExtraSpecs)
	with.ExtraSpecs[key], _ = json.Marshal(script) // base64, as the schema has it
	return with.extraSpecs()
}

// installsRunner says whether an instance that is given no script of ours or of the spec's runs the executable's.
func (p *Provider) installsRunner(s spec) bool {
	_, own := s.ExtraSpecs[installTemplate]
	return !own && p.config.InstallScript != noScript
}

// deleteInstance runs one delete. What does not exist is deleted already.
func (p *Provider) deleteInstance(ctx context.Context, installation uuid.UUID, id string) error {
	defer p.recent.forget()
	_, err := p.call(ctx, request{command: common.DeleteInstanceCommand, installation: installation, instance: id})
	if exitedWith(err, exitNotFound) {
		return nil
	}
	return err
}
