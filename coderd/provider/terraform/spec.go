package terraform

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// Outputs name those of a module that say what a workspace is; empty: the module does not say.
type Outputs struct {
	Addresses   string `json:"addresses,omitempty"`   // a text, a list of them, or a mapping of them
	Environment string `json:"environment,omitempty"` // a mapping of texts
	Ready       string `json:"ready,omitempty"`       // true or false
}

// parseSpec reads a spec and returns all that is wrong with it.
func parseSpec(raw json.RawMessage, parameters map[string]string) (Module, []provider.Problem) {
	p := &reader{parameters: parameters}
	m := Module{Files: map[string]string{}, Variables: map[string]string{}}
	p.Mapping("", raw, specs.Fields{
		"module":             func(at string, raw json.RawMessage) { m.Files, m.Archive = p.module(at, raw) },
		"variables":          specs.To(&m.Variables, p.variables),
		"outputs":            specs.To(&m.Outputs, p.outputs),
		"idempotent":         specs.To(&m.Idempotent, p.Boolean),
		provider.HandoverKey: specs.To(&m.HandsOver, p.handover),
	})
	if len(m.Files) == 0 && m.Archive == "" && !p.Has("module") {
		p.Add("module", "is missing: name a directory, or give its files by their names, such as main.tf")
	}
	for name, value := range parameters {
		if _, given := m.Variables[name]; !given {
			m.Variables[name] = value
		}
	}
	return m, p.Problems
}

// handover is whether the workspaces are handed over, at any time.
func (p *reader) handover(at string, raw json.RawMessage) bool {
	when := p.Text(at, raw)
	if !slices.Contains([]string{provider.HandoverNever, provider.HandoverAfter, provider.HandoverBefore}, when) && !p.Has(at) {
		p.Add(at, "must be never, after or before")
	}
	return when != provider.HandoverNever
}

type reader struct {
	specs.Reader
	parameters map[string]string
}

func (p *reader) texts(at string, raw json.RawMessage) map[string]string {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		p.Add(at, "must be a mapping")
	}
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		texts[name] = p.Text(at+"."+name, all[name])
	}
	return texts
}

// module reads files by their paths, or the digest of an archive that has them.
func (p *reader) module(at string, raw json.RawMessage) (files map[string]string, archive string) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) {
		return p.files(at, raw), ""
	}
	switch archive = p.Text(at, raw); {
	case modules.IsDigest(archive):
	case modules.InGit(archive):
		p.Add(at, "%q is in Git: apply the file with the command line (prewarm apply), which fetches and uploads it", archive)
	case strings.Contains(archive, "://"):
		p.Add(at, "%q is a URL: name a directory, or a commit in Git, such as git::https://example.com/modules.git//vm?ref=COMMIT", archive)
	default:
		p.Add(at, "%q is a directory where the file is: apply the file with the command line (prewarm apply), which uploads it", archive)
	}
	return nil, archive
}

func (p *reader) files(at string, raw json.RawMessage) map[string]string {
	files, size := p.texts(at, raw), 0
	for name, content := range files {
		size += len(name) + len(content)
		switch {
		case !fs.ValidPath(name) || name == ".":
			p.Add(at+"."+name, "must be a path within the module, such as main.tf")
		case slices.Contains(modules.Reserved(), name):
			p.Add(at+"."+name, "is Prewarm's: give the file another name")
		case strings.HasPrefix(path.Base(name), ".terraform") && path.Base(name) != modules.LockFile:
			p.Add(at+"."+name, "is Terraform's own")
		}
	}
	if size > modules.MostBytes {
		p.Add(at, "has %d bytes; at most %d can be", size, modules.MostBytes)
	}
	return files
}

// reference is how the value of a variable names a parameter.
var reference = regexp.MustCompile(`\$\{parameters\.([^}]*)\}`)

var identifier = regexp.MustCompile(`^[\pL_][\pL\pN_-]*$`)

func (p *reader) variables(at string, raw json.RawMessage) map[string]string {
	variables := p.texts(at, raw)
	for name, value := range variables {
		if !identifier.MatchString(name) {
			p.Add(at+"."+name, "is not a name for a variable")
		}
		variables[name] = reference.ReplaceAllStringFunc(value, func(found string) string {
			parameter := reference.FindStringSubmatch(found)[1]
			is, known := p.parameters[parameter]
			if !known {
				p.Add(at+"."+name, "%s: the preset has no parameter %q", found, parameter)
			}
			return is
		})
	}
	return variables
}

func (p *reader) outputs(at string, raw json.RawMessage) (o Outputs) {
	name := func(at string, raw json.RawMessage) string {
		s := p.NonEmpty(at, raw)
		if !p.Has(at) && (!identifier.MatchString(s) || s == workspaceOutput) {
			p.Add(at, "must be the name of an output of the module")
		}
		return s
	}
	p.Mapping(at, raw, specs.Fields{
		"addresses": specs.To(&o.Addresses, name), "environment": specs.To(&o.Environment, name), "ready": specs.To(&o.Ready, name),
	})
	return o
}
