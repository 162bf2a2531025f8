package terraform

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/pem"
	"io"
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// initScript is the init_script of each coder_agent. The provider `coder` puts the server's address into it.
//
//go:embed coder.sh
var initScript string

const (
	authorities = "{{AUTHORITIES}}" // in initScript

	// The built-in identity, which owns what nobody has claimed: its name, and its id in the database.
	builtinOwner   = "prewarm"
	builtinOwnerID = "00000000-0000-4000-8000-000000000002"

	// noToken is the token of an agent that a template has nothing for. It is the same in each run, where the provider would make a new
	// one, so that nothing is replaced for it.
	noToken = "none"
)

// agentTokenVariable holds the token that each coder_agent of a module gets. It is named by the hash of an agent's name, which is empty.
var agentTokenVariable = "CODER_RUNNING_WORKSPACE_AGENT_TOKEN_" + hashed("")

// ofCoder finds what the provider `coder` makes, as it is named in a module. A word is enough, and no parser reads the files: that of the
// language goes as deep as they are nested, and what exhausts its stack ends the server.
var ofCoder = regexp.MustCompile(`"coder_[a-z_]+"`)

// agentOfCoder is what hands the token and the script of an agent to the rest of a module.
const agentOfCoder = `"coder_agent"`

// coder is the environment that the provider `coder` reads, where the files of a module use it; else nil. All of it is kept with the
// module, so that each apply and the destroy have the same to the byte.
func (p *Provider) coder(req provider.CreateRequest, files map[string]string) (map[string]string, error) {
	uses, agent := false, false
	for name, content := range files {
		if ext := path.Ext(strings.TrimSuffix(name, ".json")); ext == ".tf" || ext == ".tofu" {
			uses = uses || ofCoder.MatchString(content)
			agent = agent || strings.Contains(content, agentOfCoder)
		}
	}
	if req.Callback.Token != "" && !agent {
		return nil, provider.Permanent(xerrors.New("the template has an agent, and its module has no resource coder_agent that would start " +
			"it: add one, or leave agent out of the template"))
	}
	if !uses {
		return nil, nil
	}
	callback := req.Callback
	if callback.Token == "" {
		callback.CallbackURL = p.StateURL
	}
	server, err := callback.Server("")
	if err != nil {
		return nil, err
	}
	spec := sha256.Sum256(req.Spec)
	env := map[string]string{
		"CODER_AGENT_URL":                  server.String(),
		"CODER_WORKSPACE_TRANSITION":       "start",
		"CODER_WORKSPACE_IS_PREBUILD":      "true",
		"CODER_WORKSPACE_ID":               req.Tags.WorkspaceID.String(),
		"CODER_WORKSPACE_BUILD_ID":         req.Tags.WorkspaceID.String(),
		"CODER_WORKSPACE_NAME":             req.Name,
		"CODER_WORKSPACE_TEMPLATE_ID":      uuid.NewSHA1(req.Tags.Installation, []byte(req.Organization+"/"+req.Template)).String(),
		"CODER_WORKSPACE_TEMPLATE_NAME":    req.Template,
		"CODER_WORKSPACE_TEMPLATE_VERSION": hex.EncodeToString(spec[:6]),
		"CODER_WORKSPACE_OWNER":            builtinOwner,
		"CODER_WORKSPACE_OWNER_NAME":       builtinOwner,
		"CODER_WORKSPACE_OWNER_ID":         builtinOwnerID,
		"CODER_WORKSPACE_OWNER_EMAIL":      builtinOwner + "@example.invalid",
		"CODER_WORKSPACE_OWNER_GROUPS":     "[]",
		"CODER_WORKSPACE_OWNER_RBAC_ROLES": "[]",
		agentTokenVariable:                 noToken,
	}
	if callback.Token != "" {
		env[agentTokenVariable] = callback.Token
	}
	script := strings.ReplaceAll(initScript, authorities, certificates(callback.CABundle))
	for _, arch := range []string{"amd64", "arm64", "armv7"} { // each finds out by itself
		env["CODER_AGENT_SCRIPT_linux_"+arch] = script
	}
	for name, value := range req.Parameters {
		env["CODER_PARAMETER_"+hashed(name)] = value
	}
	return env, nil
}

// notOfCoder: nothing else reads an owner.
var notOfCoder = provider.Permanent(xerrors.Errorf("%s needs a module that uses the provider `coder`: only by that a module sees its owner",
	provider.HandoverKey))

// HandOver applies the module again with the real owner, as the provider `coder` expects it after a claim. A plan that would replace or
// remove a resource is refused: somebody is at work in it by now.
func (p *Provider) HandOver(ctx context.Context, req provider.HandoverRequest) (provider.Instance, error) {
	is, err := p.find(ctx, req.Ref)
	if err != nil {
		return provider.Instance{}, err
	}
	module, err := p.made(ctx, is.WorkspaceID)
	if err != nil {
		return provider.Instance{}, err
	}
	switch {
	case module.Environment == nil:
		return provider.Instance{}, notOfCoder
	case len(is.Unsure) > 0 && !module.Idempotent:
		return provider.Instance{}, doubt(is)
	}
	maps.Copy(module.Environment, map[string]string{
		"CODER_WORKSPACE_IS_PREBUILD": "false", "CODER_WORKSPACE_IS_PREBUILD_CLAIM": "true",
		"CODER_WORKSPACE_OWNER": req.Owner, "CODER_WORKSPACE_OWNER_NAME": req.Owner, "CODER_WORKSPACE_OWNER_ID": req.OwnerID.String(),
		"CODER_WORKSPACE_OWNER_EMAIL": req.Owner + "@example.invalid",
	})
	err = p.run(ctx, module, req.Ref.State, func(run *Run, output io.Writer) error {
		return p.apply(ctx, run, is.WorkspaceID, is.Unsure, output, func(of Planned) error {
			if len(of.Removes) > 0 {
				return provider.Permanent(xerrors.Errorf("its plan would replace or remove %s, so nothing was done. Keep what "+
					"they are made of the same for every owner, such as by lifecycle { ignore_changes = … }", named(of.Removes)))
			}
			encoded, err := module.encode() // the destroy has the same environment
			if err != nil {
				return err
			}
			return p.States.KeepModule(ctx, is.WorkspaceID, req.Ref.State.Token, encoded, module.Archive)
		})
	})
	if err != nil {
		return provider.Instance{}, err
	}
	if is, err = p.States.Of(ctx, is.WorkspaceID); err != nil {
		return provider.Instance{}, xerrors.Errorf("read what was made: %w", err)
	}
	return p.instance(is)
}

// certificates are those of a bundle as lines of the script, without what stands between them.
func certificates(bundle []byte) string {
	var lines []byte
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return string(lines)
		}
		lines = append(lines, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
}

// hashed is a text as the provider `coder` names variables by it.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// secrets are those of the module's environment, which its output must not show.
func (m Module) secrets() []string {
	if token := m.Environment[agentTokenVariable]; token != "" && token != noToken {
		return []string{token}
	}
	return nil
}
