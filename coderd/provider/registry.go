package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

// Factory makes a provider of one kind from its configuration. An error is about the configuration or the place it
// points to, and is shown to whoever wrote it.
type Factory func(config json.RawMessage) (Provider, error)

// Row is one configured provider as the database has it.
type Row struct {
	Name   string
	Kind   string
	Config json.RawMessage
	// Removed is a provider that is not configured any more, though there is work to do at it.
	Removed bool
}

// Source reads the providers that are configured.
type Source func(ctx context.Context) ([]Row, error)

// Registry holds the providers of this process by their configured names. It is filled from rows that its source reads, or
// that the caller has read, as often as the caller likes: a provider is made once and again only when its row changes. One
// that cannot be made keeps its error, and the others go on. All it hands out is Guarded.
type Registry struct {
	inTx   func(context.Context) bool
	kinds  map[string]Factory
	watch  Watch           // may be nil
	source Source          // may be nil
	ctx    context.Context // of the source
	clock  quartz.Clock    // of the source

	updating sync.Mutex // held while providers are made, which may take a while; readers do not wait for it
	mu       sync.RWMutex
	entries  map[string]entry
	unknown  map[string]bool // names that were asked for, and that the source did not have when it was read for them
}

// readFor bounds a reading of the source for a name that is not known.
const readFor = 5 * time.Second

// retryEvery is how often a provider that can't be had is looked for again at most, when somebody asks for it.
const retryEvery = time.Second

type entry struct {
	row      Row
	provider Provider
	err      error
	asked    time.Time // with an error: when the source was last read for it
}

// NewRegistry makes an empty registry of the given kinds. inTx is for Guarded.
func NewRegistry(kinds map[string]Factory, inTx func(context.Context) bool) *Registry {
	return &Registry{inTx: inTx, kinds: maps.Clone(kinds), entries: map[string]entry{}}
}

// OnCall has every call of every provider watched. To be set before the first Update.
func (r *Registry) OnCall(watch Watch) { r.watch = watch }

// From says where the providers come from, until ctx ends. To be set before the first Read and Get.
func (r *Registry) From(ctx context.Context, clock quartz.Clock, source Source) {
	r.ctx, r.clock, r.source = ctx, clock, source
}

// Read makes the registry hold what its source has; without one it stays as it is.
func (r *Registry) Read(ctx context.Context) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = nil
	return nil
}

func (r *Registry) read(ctx context.Context) error {
	if r.source == nil {
		return nil
	}
	r.updating.Lock() // from here, so that of two readings the later one stays
	defer r.updating.Unlock()
	rows, err := r.source(ctx)
	if err != nil {
		return err
	}
	r.update(rows)
	return nil
}

// Kinds names the kinds of provider there are, sorted.
func (r *Registry) Kinds() []string { return slices.Sorted(maps.Keys(r.kinds)) }

// Update makes the registry hold exactly the given rows. A provider whose row is the same as before is kept; one that
// could not be made is tried again. A provider that is replaced or dropped goes on for whoever still has it.
func (r *Registry) Update(rows []Row) {
	r.updating.Lock()
	defer r.updating.Unlock()
	r.update(rows)
}

func (r *Registry) update(rows []Row) {
	next := make(map[string]entry, len(rows))
	for _, row := range rows {
		old, ok := r.entries[row.Name]
		if row.Removed {
			err := xerrors.Errorf("provider %q has been removed from the configuration", row.Name)
			next[row.Name] = entry{row: row, err: err, asked: old.asked}
			continue
		}
		if ok && old.err == nil && old.row.Kind == row.Kind && bytes.Equal(old.row.Config, row.Config) {
			next[row.Name] = old
			continue
		}
		row.Config = bytes.Clone(row.Config)
		p, err := r.make(row.Kind, row.Config, row.Name, r.watch)
		if err != nil {
			err = xerrors.Errorf("make provider %q: %w", row.Name, err)
		}
		next[row.Name] = entry{row: row, provider: p, err: err, asked: old.asked}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = next
}

// New makes a provider that the registry does not hold: to see whether a configuration works before it is stored.
func (r *Registry) New(kind string, config json.RawMessage) (Provider, error) {
	return r.make(kind, config, "", nil)
}

func (r *Registry) make(kind string, config json.RawMessage, name string, watch Watch) (Provider, error) {
	factory, ok := r.kinds[kind]
	if !ok {
		return nil, xerrors.Errorf("unknown kind %q: it is one of %s", kind, strings.Join(r.Kinds(), ", "))
	}
	p, err := factory(config)
	if err != nil {
		return nil, err
	}
	return &guarded{inner: p, inTx: r.inTx, name: name, watch: watch}, nil
}

// Get returns the provider configured under name, or why there is none. For one that it has not it reads its source first:
// another replica may have applied the provider just now, and have sent a job here, or what kept it from being made is
// mended. For a name that it does not know it does so once until the next Read, else once per retryEvery.
func (r *Registry) Get(name string) (Provider, error) {
	e, ok := r.lookUp(name)
	if (!ok || e.err != nil) && r.asks(name) {
		ctx, cancel := context.WithTimeout(r.ctx, readFor)
		defer cancel()
		err := r.read(ctx)
		if err != nil && !ok {
			return nil, xerrors.Errorf("provider %q is not known here, and the configured ones can't be read: %w", name, err)
		}
		if e, ok = r.lookUp(name); !ok && err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.unknown == nil {
				r.unknown = map[string]bool{}
			}
			r.unknown[name] = true
		}
	}
	if !ok {
		return nil, xerrors.Errorf("no provider is named %q", name)
	}
	return e.provider, e.err
}

// asks says whether to read the source for a name.
func (r *Registry) asks(name string) bool {
	if r.source == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[name]
	switch {
	case !ok:
		return !r.unknown[name]
	case e.err == nil || r.clock.Since(e.asked) < retryEvery:
		return false
	}
	e.asked = r.clock.Now() // one of many who ask at once
	r.entries[name] = e
	return true
}

func (r *Registry) lookUp(name string) (e entry, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, known = r.entries[name]
	return e, known
}

// Refuses says why a provider would refuse a spec with its parameters now; nil where it would not. judged is false where
// this process cannot say: it does not reach the site that the workspace is at, or has no such provider.
func (r *Registry) Refuses(name, site string, spec json.RawMessage, parameters map[string]string) (judged bool, why error) {
	p, err := r.Get(name)
	if err != nil {
		return false, nil //nolint:nilerr // as said above
	}
	if s, ok := As[Sited](p); ok && site != "" && s.Site() != site {
		return false, nil
	}
	return true, SpecError(p.Validate(spec, parameters))
}

// Names lists the configured names, of those that could not be made too, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// Sites lists the sites that this process reaches, sorted and each once: work that belongs to a site is leased only
// by a replica that has it.
func (r *Registry) Sites() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	sites := map[string]struct{}{}
	for _, e := range r.entries {
		if e.err != nil {
			continue
		}
		if s, ok := As[Sited](e.provider); ok {
			sites[s.Site()] = struct{}{}
		}
	}
	sorted := slices.AppendSeq(make([]string, 0, len(sites)), maps.Keys(sites)) // never nil: a column takes it
	slices.Sort(sorted)
	return sorted
}
