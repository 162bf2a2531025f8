package templates

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

// NewProvider makes a provider of a kind, to see whether its configuration works and to ask it about specs;
// provider.Registry has it. The error is shown to whoever wrote the file.
type NewProvider func(kind string, config json.RawMessage) (provider.Provider, error)

// check notes what is wrong with a document in this world: providers that are not there or cannot be made, and specs
// and parameters that they refuse. existing are the providers in the database. It returns the archives that specs name.
func check(ctx context.Context, doc *Document, existing []database.Provider, newProvider NewProvider, problems *Problems) []archive {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	c := checker{ctx: ctx, doc: doc, problems: problems, newProvider: newProvider, made: map[string]made{}}
	for _, p := range existing {
		if p.DeletedAt == nil {
			c.names = append(c.names, p.Name)
		}
	}
	for i, p := range doc.Providers {
		if p.Name != "" && !slices.Contains(c.names, p.Name) {
			c.names = append(c.names, p.Name)
		}
		if p.Name != "" && p.Kind != "" && p.Config != nil {
			c.declared(p, existing)
			_, reserves := provider.As[provider.Reserver](c.made[p.Name].provider)
			doc.Providers[i] = p.ofMachines(reserves)
		}
	}
	slices.Sort(c.names)
	for _, t := range doc.Templates {
		if t.Provider != "" {
			c.template(t, existing)
		}
	}
	return c.archives
}

// askFor bounds how long the places of a document are asked what they would refuse.
const askFor = 15 * time.Second

type checker struct {
	ctx         context.Context
	doc         *Document
	problems    *Problems
	newProvider NewProvider
	names       []string // of all providers there are or will be, sorted
	made        map[string]made
	archives    []archive
}

type made struct {
	provider provider.Provider
	err      error
}

// declared checks a provider of the file.
func (c *checker) declared(p Provider, existing []database.Provider) {
	if is := providerNamed(existing, p.Name); is != nil && is.Kind != p.Kind {
		c.problems.add(p.kindAt, "provider %q is of kind %s: its workspaces could not be deleted by another kind; "+
			"give the new provider another name", p.Name, is.Kind)
		return
	}
	v, err := c.newProvider(p.Kind, p.Config)
	c.made[p.Name] = made{v, err}
	if err != nil {
		at := p.kindAt
		if p.configAt != (Pos{}) && !strings.HasPrefix(err.Error(), "unknown kind") {
			at = p.configAt
		}
		c.problems.add(at, "provider %q: %v", p.Name, err)
	}
}

// template checks one template's spec with each of its presets.
func (c *checker) template(t Template, existing []database.Provider) {
	if !slices.Contains(c.names, t.Provider) {
		if providerNamed(existing, t.Provider) != nil {
			c.problems.add(t.providerAt, "provider %q is deleted: declare it under providers to have it again, or take another",
				t.Provider)
			return
		}
		c.problems.add(t.providerAt, "unknown provider %q%s: %s; declare others under providers", t.Provider,
			DidYouMean(t.Provider, c.names), thereAre(c.names))
		return
	}
	p, err := c.provider(t.Provider, existing)
	if err != nil {
		if !c.declares(t.Provider) { // else it was told where it is declared
			c.problems.add(t.providerAt, "provider %q does not work: %v", t.Provider, err)
		}
		return
	}
	if p == nil || t.Spec == nil {
		return
	}
	if _, ok := provider.As[provider.AgentHost](p); t.Agent != nil && !ok {
		why := ""
		if s, ok := provider.As[provider.Spoken](p); ok && s.Spoken().NoAgent != "" {
			why = ": " + s.Spoken().NoAgent
		}
		c.problems.add(t.agentAt, "provider %q cannot run an agent in its workspaces%s; leave agent out, or take another "+
			"provider", t.Provider, why)
	}
	_, installs := provider.As[provider.RunnerTaker](p)
	for _, preset := range t.Presets {
		if preset.Runner != nil && t.Agent == nil && t.agentAt == (Pos{}) && !installs {
			c.problems.add(preset.Runner.at, "preset %q has a runner, but the template has no agent, from which a runner gets its "+
				"configuration. Add \"agent: {}\" to the template, or one with an on_start that registers", preset.Name)
		}
	}
	if _, ok := provider.As[provider.Resetter](p); t.Reuse.On && !ok {
		c.problems.add(t.reuseAt, "provider %q cannot reset a used workspace: leave reuse out, or take another "+
			"provider", t.Provider)
	}
	if i, ok := provider.As[provider.Isolator](p); ok && t.Reuse.On {
		if err := i.Isolated(); err != nil {
			c.problems.add(t.reuseAt, "provider %q cannot be sure to end all that runs in a used workspace: %v; leave reuse out, or "+
				"take another provider", t.Provider, err)
		}
	}
	c.machines(t, p)
	c.archive(t, p)
	if len(t.Presets) == 0 {
		c.refusals(t, Preset{at: t.specAt}, p.Validate(t.Spec, map[string]string{}))
	}
	for _, preset := range t.Presets {
		problems := p.Validate(t.Spec, preset.Parameters)
		if len(problems) == 0 {
			problems = c.ask(t, preset, p)
		}
		c.refusals(t, preset, problems)
		if len(problems) == 0 {
			c.standby(t, preset, p)
		}
	}
}

// standby says why workspaces of a preset cannot be stopped, where they are to be.
func (c *checker) standby(t Template, preset Preset, p provider.Provider) {
	if preset.standbyRunning() == nil {
		return
	}
	if _, stops := provider.As[provider.Stopper](p); !stops {
		c.problems.add(preset.Prebuilds.Standby.at, "preset %q: provider %q cannot stop and start its workspaces: leave standby "+
			"out, or take another provider", preset.Name, t.Provider)
	}
	if some, ok := provider.As[provider.StopChecker](p); ok {
		if err := some.CheckStop(t.Spec, preset.Parameters); err != nil {
			c.problems.add(preset.Prebuilds.Standby.at, "preset %q: %v; or leave standby out", preset.Name, err)
		}
	}
}

// ask is what the place itself would refuse. One that does not answer refuses nothing: it will be asked again at each create.
func (c *checker) ask(t Template, preset Preset, p provider.Provider) []provider.Problem {
	place, ok := provider.As[provider.Checker](p)
	if !ok {
		return nil
	}
	req := provider.CreateRequest{
		Name: provider.CheckPrefix + strings.ToLower(rand.Text()), Tags: provider.Tags{WorkspaceID: uuid.New(), Incarnation: 1},
		Template: t.Name, Preset: preset.Name, Spec: t.Spec, Parameters: preset.Parameters, Defaults: provider.CurrentDefaults,
	}
	if t.Agent != nil {
		req.Callback = provider.Callback{CallbackURL: "https://check.invalid/api/v1/", Token: "check"}
	}
	problems, err := place.Check(c.ctx, req)
	if err != nil {
		return nil
	}
	return problems
}

func (c *checker) provider(name string, existing []database.Provider) (provider.Provider, error) {
	if m, ok := c.made[name]; ok {
		return m.provider, m.err
	}
	e := providerNamed(existing, name)
	if e == nil || c.declares(name) {
		return nil, nil // declared, but not readable: told where it is declared
	}
	p, err := c.newProvider(e.Kind, e.Config)
	c.made[name] = made{p, err}
	return p, err
}

func (c *checker) declares(name string) bool {
	return slices.ContainsFunc(c.doc.Providers, func(p Provider) bool { return p.Name == name })
}

// refusals notes a provider's problems where they are in the file.
func (c *checker) refusals(t Template, preset Preset, problems []provider.Problem) {
	for _, p := range problems {
		if parameter, ok := strings.CutPrefix(p.Path, "parameters."); ok || p.Path == "parameters" {
			at, found := preset.parameters.find(parameter)
			if !found {
				at = preset.at
			}
			c.problems.add(at, "%s: %s", p.Path, p.Message)
			continue
		}
		at, found := t.spec.find(p.Path)
		if !found {
			at = t.specAt
		}
		c.problems.add(at, "%s: %s", strings.TrimSuffix("spec."+p.Path, "."), p.Message)
	}
}

// kindChanged is what check would have said, had the provider not been made in the meantime.
func kindChanged(doc *Document, p Provider, kind string) error {
	problems := &Problems{File: doc.File}
	problems.add(p.kindAt, "provider %q was made with kind %s just now: give this one another name", p.Name, kind)
	return xerrors.Errorf("compare provider: %w", problems)
}
