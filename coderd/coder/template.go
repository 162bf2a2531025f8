package coder

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
)

// Template is what the directory of a template declares.
type Template struct {
	Agent   bool     // it has a coder_agent
	OnStart []string // scripts that the agent runs at its start
	Presets []Preset
	Left    []Left // what was not carried over, by place
}

// Preset is a coder_workspace_preset, or the only one of a template without any.
type Preset struct {
	Name       string
	Parameters map[string]string // all of the template that have a value
	Prebuilds  *Prebuilds        // nil: no pool
}

// Prebuilds are the pool of a preset.
type Prebuilds struct {
	Instances int
	TTL       int // seconds; 0: none
	Timezone  string
	Ranges    []Range
}

// Range is when a pool has another size.
type Range struct {
	Cron      string
	Instances int
}

// Left is one thing that was not carried over.
type Left struct {
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"` // such as data.coder_parameter.region
	Why  string `json:"why"`  // and what to do
}

func (l Left) String() string { return fmt.Sprintf("%s:%d: %s: %s", l.File, l.Line, l.What, l.Why) }

// parameter is a coder_parameter.
type parameter struct {
	label, name string
	value       *string // its default
	at          hcl.Range
}

// reader reads one directory.
type reader struct {
	Template
	files      []modules.File
	blocks     []*hclsyntax.Block // of the root module, in the order of the files
	scope      *hcl.EvalContext
	parameters []parameter
	agents     int
}

// Read reads the files of a template. The error says where a file is not of Terraform's language.
func Read(files []modules.File) (*Template, error) {
	r := &reader{files: files, Template: Template{Left: []Left{}}} // a list in JSON, also where it is empty
	if err := r.parse(); err != nil {
		return nil, err
	}
	r.evaluate()
	for _, b := range r.blocks {
		r.block(b)
	}
	r.presets()
	r.references()
	slices.SortStableFunc(r.Left, func(a, b Left) int { return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return &r.Template, nil
}

func (r *reader) parse() error {
	for _, f := range r.files {
		if strings.Contains(f.Name, "/") {
			continue // of a module within: what it declares is not the template's
		}
		if strings.HasSuffix(f.Name, ".tf.json") {
			r.leave(hcl.Range{Filename: f.Name, Start: hcl.InitialPos}, f.Name, "JSON is not read: write it as a .tf file")
			continue
		}
		if ext := path.Ext(f.Name); ext != ".tf" && ext != ".tofu" {
			continue
		}
		parsed, wrong := hclsyntax.ParseConfig(f.Content, f.Name, hcl.InitialPos)
		if wrong.HasErrors() {
			return xerrors.Errorf("read template: %w", wrong)
		}
		if body, is := parsed.Body.(*hclsyntax.Body); is {
			r.blocks = append(r.blocks, body.Blocks...)
		}
	}
	if len(r.blocks) == 0 {
		return xerrors.New("read template: there is no .tf file with anything in it: is it the right directory?")
	}
	return nil
}

// leave lists what is not carried over.
func (r *reader) leave(at hcl.Range, what, why string, args ...any) {
	r.Left = append(r.Left, Left{File: at.Filename, Line: at.Start.Line, What: what, Why: fmt.Sprintf(why, args...)})
}

// block reads one block of the root module, but for presets, which name parameters.
func (r *reader) block(b *hclsyntax.Block) {
	at := b.DefRange()
	if b.Type == "module" && len(b.Labels) == 1 {
		r.leave(at, "module."+b.Labels[0], "what it declares is not read, such as scripts and apps. The run makes it")
	}
	if len(b.Labels) != 2 || !strings.HasPrefix(b.Labels[0], "coder_") {
		return
	}
	name := b.Labels[0] + "." + b.Labels[1]
	if b.Type == "data" {
		name = "data." + name
	}
	switch b.Labels[0] {
	case "coder_parameter":
		r.parameter(b, name)
	case "coder_agent":
		r.agent(b, name)
	case "coder_script":
		r.script(b, name)
	case "coder_app":
		r.app(b, name)
	case "coder_workspace", "coder_workspace_owner", "coder_provisioner", "coder_workspace_preset":
	default:
		r.leave(at, name, "%s", cmp.Or(notCarried[b.Labels[0]], "Prewarm has nothing like it"))
	}
}

// notCarried are kinds of which nothing is carried over.
var notCarried = map[string]string{
	"coder_env":            "the agent does not set it: put the variable into the container or the machine, or export it in the script",
	"coder_metadata":       "it is not shown: name an output of the directory in spec.outputs instead",
	"coder_external_auth":  "no access token is handed over: have claims bring it as a secret",
	"coder_workspace_tags": "there are no provisioners to choose: the servers run the directory",
	"coder_external_agent": "an agent outside of the directory is not started",
	"coder_agent_instance": "the agent shows who it is by its token, and not by the instance",
}

// app is not shown anywhere. Its port is reached as any other.
func (r *reader) app(b *hclsyntax.Block, name string) {
	why := "there are no buttons for apps"
	if port := r.port(b); port != "" {
		why += ": prewarm workspace link NAME " + port + " opens it"
		if share, _ := r.text(b.Body, "share"); share == "public" {
			why += ". For everybody, add public_ports: [" + port + "] to the agent, where an owner allows it"
		}
	}
	r.leave(b.DefRange(), name, "%s", why)
}

// references lists what is read of an owner: it is the built-in identity.
func (r *reader) references() {
	seen := map[string]bool{}
	for _, b := range r.blocks {
		for _, v := range variables(b.Body) {
			if v.RootName() != "data" || len(v) < 4 {
				continue
			}
			kind, isAttribute := v[1].(hcl.TraverseAttr)
			attribute, named := v[3].(hcl.TraverseAttr)
			if !isAttribute || !named || kind.Name != "coder_workspace_owner" || seen[attribute.Name] {
				continue
			}
			seen[attribute.Name] = true
			r.leave(v.SourceRange(), "data.coder_workspace_owner."+attribute.Name,
				"it is of the built-in identity. on_claim of the agent has the owner in PREWARM_OWNER. With apply_on_claim in the spec "+
					"the directory is applied again for the owner")
		}
	}
}

// variables are what the expressions of a block name.
func variables(body *hclsyntax.Body) (all []hcl.Traversal) {
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		all = append(all, hclsyntax.Variables(body.Attributes[name].Expr)...)
	}
	for _, b := range body.Blocks {
		all = append(all, variables(b.Body)...)
	}
	return all
}
