package external

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cloudbase/garm-provider-common/params"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// spec is what a template's spec says, over the defaults of the configuration.
type spec struct {
	Image       string                     `json:"image"`
	Flavor      string                     `json:"flavor"`
	OSType      params.OSType              `json:"os_type"` // linux
	OSArch      params.OSArch              `json:"os_arch"` // amd64
	ExtraSpecs  map[string]json.RawMessage `json:"extra_specs"`
	Labels      []string                   `json:"labels"`
	SSHKeys     []string                   `json:"ssh_keys"`
	CABundle    string                     `json:"ca_bundle"` // PEM
	RepoURL     string                     `json:"repo_url"`
	RunnerGroup string                     `json:"runner_group"`
	UserData    params.UserDataOptions     `json:"user_data"`
}

// maxExtraSpecs keeps them, in base64, within what the kernel takes as one variable.
const maxExtraSpecs = 90 << 10 // bytes

// parseSpec reads a spec and returns all that is wrong with it. Parameters named image and flavor stand for those of the
// spec: presets of one version differ in them.
func (p *Provider) parseSpec(raw json.RawMessage, parameters map[string]string) (spec, []provider.Problem) {
	s := spec{OSType: params.Linux, OSArch: params.Amd64}
	problems := s.overlay(p.defaults)
	problems = append(problems, s.overlay(raw)...)
	for name, field := range map[string]*string{"image": &s.Image, "flavor": &s.Flavor} {
		if v, ok := parameters[name]; ok {
			*field = v
		}
	}
	add := func(path, format string, args ...any) {
		if !slices.ContainsFunc(problems, func(q provider.Problem) bool { return strings.HasPrefix(path, q.Path) }) {
			problems = append(problems, provider.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
		}
	}
	for _, required := range []struct{ key, value string }{{"flavor", s.Flavor}, {"image", s.Image}} {
		if required.value == "" {
			add(required.key, "is missing: give it here, in the provider's defaults, or as a parameter of the preset")
		}
	}
	if !slices.Contains([]params.OSType{params.Linux, params.Windows}, s.OSType) {
		add("os_type", "must be linux or windows")
	}
	if !slices.Contains([]params.OSArch{params.Amd64, params.Arm64, params.Arm, params.I386}, s.OSArch) {
		add("os_arch", "must be amd64, arm64, arm or i386")
	}
	if s.CABundle != "" {
		if block, _ := pem.Decode([]byte(s.CABundle)); block == nil {
			add("ca_bundle", "must be certificates in PEM")
		}
	}
	if len(s.extraSpecs()) > maxExtraSpecs {
		add("extra_specs", "must not be longer than %d KiB", maxExtraSpecs>>10)
	}
	for _, problem := range p.facts.extraSpecs.problems(s.extraSpecs()) {
		add(strings.TrimSuffix("extra_specs."+problem.Path, "."), "%s", problem.Message)
	}
	return s, problems
}

// overlay puts what raw says over s; of extra_specs and user_data, key by key.
func (s *spec) overlay(raw json.RawMessage) []provider.Problem {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	const text, texts = "a string", "a list of strings"
	var p specs.Reader
	p.Mapping("", raw, specs.Fields{
		"image":        p.Into(&s.Image, text),
		"flavor":       p.Into(&s.Flavor, text),
		"os_type":      p.Into(&s.OSType, text),
		"os_arch":      p.Into(&s.OSArch, text),
		"repo_url":     p.Into(&s.RepoURL, text),
		"runner_group": p.Into(&s.RunnerGroup, text),
		"ca_bundle":    p.Into(&s.CABundle, text),
		"labels":       p.Into(&s.Labels, texts),
		"ssh_keys":     p.Into(&s.SSHKeys, texts),
		"user_data":    p.Into(&s.UserData, "a mapping with disable_updates_on_boot, enable_boot_debug and extra_packages"),
		"extra_specs": func(path string, raw json.RawMessage) {
			over := maps.Clone(s.ExtraSpecs)
			p.Into(&over, "a mapping")(path, raw)
			s.ExtraSpecs = over
		},
	})
	return p.Problems
}

// extraSpecs is the mapping as the protocol wants it, never null.
func (s spec) extraSpecs() json.RawMessage {
	if len(s.ExtraSpecs) == 0 {
		return json.RawMessage("{}")
	}
	raw, _ := json.Marshal(s.ExtraSpecs) // values came from JSON: can't fail
	return raw
}
