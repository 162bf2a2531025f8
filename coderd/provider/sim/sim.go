// Package sim is a cloud that exists only in memory or in a few files: with latency, failures, calls that hang and
// answers that lie, for tests and benchmarks of all that stands on providers.
//
// The provider's configuration sets how it behaves, and a template's spec overrides that for its workspaces. A resource
// keeps the behavior it was made with. Chance is seeded: what happens to a name depends on the seed, the call, and how
// often this process made that call for that name, never on the order in which goroutines run.
//
// A lie is one of: a create or delete that took effect answers with an error; a get says that what is there is not; a
// status that is none of provider's. A call that hangs does so before or after its effect. So whoever is driven by this
// provider has to hold its invariants from names and repetition alone, as with a real cloud.
//
// With Options.Root the resources are files, and any number of processes see the same cloud. Count, All, History and
// Duplicates look behind the lies, for tests.
package sim

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// Options are what a Provider needs.
type Options struct {
	Root     string // of the files; empty: in memory
	Seed     uint64
	Machines int      // it has so many, and makes workspaces on nothing else; 0: it makes what it is asked for
	Behavior Behavior // where a spec says nothing else
	Clock    quartz.Clock
}

// Config is the configuration of a provider of this kind: options and behavior in one mapping.
func Config(raw json.RawMessage) (Options, error) {
	var opts Options
	if text := bytes.TrimSpace(raw); len(text) == 0 || string(text) == "null" {
		return opts, nil
	}
	var p specs.Reader
	fields := opts.Behavior.fields(&p)
	fields["root"] = p.Into(&opts.Root, "a string")
	fields["seed"] = p.Into(&opts.Seed, "a number from 0")
	fields["machines"] = p.Into(&opts.Machines, "a number")
	p.Mapping("", raw, fields)
	if opts.Machines < 0 || opts.Machines > maxMachines {
		p.Add("machines", "%d is not from 0 to %d", opts.Machines, maxMachines)
	}
	if len(p.Problems) > 0 {
		return opts, xerrors.Errorf("read configuration: %s: %s", p.Problems[0].Path, p.Problems[0].Message)
	}
	return opts, nil
}

// Resource is what the cloud has under a name.
type Resource struct {
	ProviderID string            `json:"provider_id"` // new for each that is made, even under the same name
	Name       string            `json:"name"`
	Machine    string            `json:"machine,omitempty"` // where machines exist beforehand
	Tags       provider.Tags     `json:"tags"`
	Template   string            `json:"template"`
	Preset     string            `json:"preset"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Behavior   Behavior          `json:"behavior"`
	Broken     bool              `json:"broken,omitempty"`
	Stopped    bool              `json:"-"` // kept beside it
	CreatedAt  time.Time         `json:"created_at"`
	ReadyAt    time.Time         `json:"ready_at"`
}

// Provider is one process's access to the cloud.
type Provider struct {
	seed     uint64
	machines int
	behavior Behavior
	clock    quartz.Clock
	store    store

	mu    sync.Mutex
	calls calls
}

var _ interface {
	provider.Provider
	provider.Resetter
	provider.Stopper
} = (*Provider)(nil)

// New opens the cloud.
func New(opts Options) (*Provider, error) {
	p := &Provider{seed: opts.Seed, machines: opts.Machines, behavior: opts.Behavior, clock: opts.Clock}
	p.clock = cmp.Or(p.clock, quartz.NewReal())
	if opts.Root == "" {
		p.store = &memoryStore{resources: map[string]Resource{}}
		return p, nil
	}
	var err error
	p.store, err = openFileStore(opts.Root)
	return p, err
}

// Validate reports what is wrong with a spec, which is a Behavior.
func (p *Provider) Validate(spec json.RawMessage, _ map[string]string) []provider.Problem {
	_, problems := p.behavior.with(spec)
	return problems
}

// Create makes a resource, or finds the one it made before.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	none := provider.Instance{}
	b, problems := p.behavior.with(req.Spec)
	if err := provider.SpecError(problems); err != nil {
		return none, err
	}
	if err := provider.CheckName(req.Name); err != nil {
		return none, err
	}
	if err := p.checkMachine(req.Machine); err != nil {
		return none, err
	}
	dice := p.dice(req.Name, "create")
	latency, broken, readyIn := b.CreateLatency.pick(dice), chance(dice, b.ErrorStatus), b.ReadyLatency.pick(dice)
	failed, refused := chance(dice, b.Fail), chance(dice, b.FailPermanent)
	hangBefore, hangAfter := hangs(dice, b)
	lied := chance(dice, b.Lie)
	if err := p.delay(ctx, latency, hangBefore); err != nil {
		return none, err
	}
	switch {
	case refused:
		return none, provider.Permanent(xerrors.New("simulated permanent failure"))
	case failed:
		return none, xerrors.New("simulated failure")
	}
	now := p.clock.Now().UTC()
	r, err := p.insert(Resource{
		ProviderID: "sim-" + strings.ToLower(crand.Text()), Name: req.Name, Machine: req.Machine, Tags: req.Tags, Template: req.Template, Preset: req.Preset,
		Parameters: req.Parameters, Behavior: b, Broken: broken, CreatedAt: now, ReadyAt: now.Add(readyIn),
	})
	if err != nil {
		return none, err
	}
	if r.Tags != req.Tags {
		return none, provider.ErrConflict
	}
	if err := p.delay(ctx, 0, hangAfter); err != nil {
		return none, err
	}
	if lied {
		return none, xerrors.New("simulated failure (a lie: it was made)")
	}
	return r.instance(), nil
}

// Get looks a resource up.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	r, lied, err := p.find(ctx, ref, "get")
	if err != nil {
		return provider.Instance{}, err
	}
	i := r.instance()
	if lied {
		i.Status = "levitating"
	}
	return i, nil
}

// List returns the resources of the installation. Only the provider's own behavior makes it hang.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	before, after := hangs(p.dice("", "list"), p.behavior)
	if err := p.delay(ctx, 0, before || after); err != nil {
		return nil, err
	}
	var list []provider.Instance
	err := p.each(func(r Resource) {
		if r.Tags.Installation == installation {
			list = append(list, r.listed())
		}
	})
	return list, err
}

// Ready says whether the time that the resource needs has passed.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	r, _, err := p.find(ctx, ref, "ready")
	if err != nil {
		return provider.Readiness{}, err
	}
	if r.Broken {
		return provider.Readiness{Failed: true, Detail: brokenDetail}, nil
	}
	if r.Stopped {
		return provider.Readiness{Detail: "it is stopped"}, nil
	}
	if left := p.clock.Until(r.ReadyAt); left > 0 {
		return provider.Readiness{Detail: "ready in " + left.Round(time.Millisecond).String()}, nil
	}
	return provider.Readiness{Ready: true}, nil
}

// Delete removes a resource.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := p.look(ref)
	if errors.Is(err, provider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.change(ctx, r, "delete", r.Behavior.DeleteLatency, "deleted", func() error { return p.store.remove(r) })
}

// change does something to a resource, as badly as that behaves.
func (p *Provider) change(
	ctx context.Context, r Resource, kind string, latency Latency, done string, do func() error,
) error {
	dice := p.dice(r.Name, kind)
	took := latency.pick(dice)
	before, after := hangs(dice, r.Behavior)
	lied := chance(dice, r.Behavior.Lie)
	if err := p.delay(ctx, took, before); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := p.delay(ctx, 0, after); err != nil {
		return err
	}
	if lied {
		return xerrors.Errorf("simulated failure (a lie: it was %s)", done)
	}
	return nil
}

// find looks up what ref means; kind is the call it is for. Half the lies are that it is not there; the others are told
// to the caller, to tell them on.
func (p *Provider) find(ctx context.Context, ref provider.Ref, kind string) (r Resource, lied bool, err error) {
	if err := ctx.Err(); err != nil {
		return r, false, err
	}
	r, err = p.look(ref)
	if err != nil {
		return r, false, err
	}
	dice := p.dice(r.Name, kind)
	before, after := hangs(dice, r.Behavior)
	if err := p.delay(ctx, 0, before || after); err != nil {
		return r, false, err
	}
	lied = chance(dice, r.Behavior.Lie)
	if lied && dice.Uint32()%2 == 0 {
		return r, true, provider.ErrNotFound
	}
	return r, lied, nil
}

// look finds by the provider's id, which does not lead to a later resource of the same name, else by name.
func (p *Provider) look(ref provider.Ref) (Resource, error) {
	var r Resource
	err := fs.ErrNotExist
	if p.machines > 0 {
		r, err = p.onMachine(ref)
	} else if provider.ValidName(ref.Name) {
		r, err = p.store.get(ref.Name)
	} else if ref.ProviderID != "" {
		r, err = p.byID(ref.ProviderID)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r, provider.ErrNotFound
	}
	if err != nil {
		return r, err
	}
	other := ref.WorkspaceID != uuid.Nil && ref.WorkspaceID != r.Tags.WorkspaceID
	if other || ref.ProviderID != "" && ref.ProviderID != r.ProviderID {
		return r, provider.ErrNotFound
	}
	return r, nil
}

func (p *Provider) byID(id string) (Resource, error) {
	found, there := Resource{}, false
	err := p.store.each(func(r Resource) {
		if r.ProviderID == id {
			found, there = r, true
		}
	})
	if err == nil && !there {
		err = fs.ErrNotExist
	}
	return found, err
}

const brokenDetail = "simulated error status"

func (r Resource) instance() provider.Instance {
	i := r.listed()
	i.Environment = map[string]string{
		"PREWARM_WORKSPACE": r.Name, "PREWARM_WORKSPACE_ID": r.Tags.WorkspaceID.String(),
		"PREWARM_TEMPLATE": r.Template, "PREWARM_PRESET": r.Preset,
	}
	return i
}

// listed is an instance without its environment, as a listing may have many.
func (r Resource) listed() provider.Instance {
	i := provider.Instance{
		ProviderID: r.ProviderID,
		Name:       r.Name,
		Tags:       r.Tags,
		Status:     provider.StatusRunning,
		Addresses:  []provider.Address{{Type: "sim", Address: r.Name}},
		CreatedAt:  r.CreatedAt,
	}
	if r.Stopped {
		i.Status = provider.StatusStopped
	}
	if r.Broken {
		i.Status, i.Fault = provider.StatusError, brokenDetail
	}
	return i
}

// dice are the chances of one call: of the nth of its kind on that name. The counts outlive the resource, for else a create
// that is repeated after a delete would fall as it fell before, for ever.
func (p *Provider) dice(name, kind string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + " " + name))
	of := h.Sum64()
	p.mu.Lock()
	defer p.mu.Unlock()
	return rand.New(rand.NewPCG(p.seed^of, p.calls.count(of)))
}

func chance(dice *rand.Rand, probability float64) bool { return dice.Float64() < probability }

// hangs decides whether a call hangs before or after its effect.
func hangs(dice *rand.Rand, b Behavior) (before, after bool) {
	hang, first := chance(dice, b.Hang), dice.Uint32()%2 == 0
	return hang && first, hang && !first
}

// delay takes the time, or with hang until ctx ends.
func (p *Provider) delay(ctx context.Context, d time.Duration, hang bool) error {
	if hang {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	return wait.For(ctx, p.clock, d, "sim")
}
