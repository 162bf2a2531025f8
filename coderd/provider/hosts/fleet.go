package hosts

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// on runs an operation on the machine that ref means: the one it names, or each in turn until one knows of it. Not to hear
// of one of them is an error, since it might be there.
func (p *Provider) on(ctx context.Context, ref provider.Ref, r request) (*Host, answer, error) {
	for _, name := range []string{ref.ProviderID, ref.Machine} {
		if name == "" {
			continue
		}
		m, ok := p.machines[name]
		if !ok {
			return nil, answer{}, xerrors.Errorf("machine %q is not in the configuration any more: put it back, or force the "+
				"deletion if it is gone for good: %w", name, provider.ErrNoMachine)
		}
		a, err := p.ask(ctx, m, r)
		if err == nil && a.outcome == "absent" {
			err = provider.ErrNotFound
		}
		return m, a, err
	}
	var found *Host
	var said answer
	missing := map[string]error{}
	var mu sync.Mutex
	p.each(ctx, func(_ int, m *Host) {
		a, err := p.ask(ctx, m, r)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			missing[m.Name] = err
		case a.outcome != "absent":
			found, said = m, a
		}
	})
	switch {
	case ctx.Err() != nil:
		return nil, said, ctx.Err()
	case found != nil:
		return found, said, nil
	case len(missing) > 0:
		return nil, said, xerrors.Errorf("not found, but: %w", &provider.PartialListing{Machines: missing})
	}
	return nil, said, provider.ErrNotFound
}

// find looks for a workspace without changing anything.
func (p *Provider) find(ctx context.Context, ref provider.Ref) (*Host, answer, error) {
	return p.on(ctx, ref, request{op: "find", ref: ref})
}

// each runs f for every machine, by its place in the configuration, as many at once as connections are allowed.
func (p *Provider) each(ctx context.Context, f func(i int, m *Host)) {
	free := make(chan struct{}, p.config.Connections)
	var all sync.WaitGroup
	for i := range p.config.Machines {
		select {
		case <-ctx.Done():
		case free <- struct{}{}:
			all.Go(func() {
				defer func() { <-free }()
				f(i, &p.config.Machines[i])
			})
		}
	}
	all.Wait()
}

// looks asks every machine what it is, in the order of the configuration.
func (p *Provider) looks(ctx context.Context) ([]answer, []error) {
	answers, errs := make([]answer, len(p.config.Machines)), make([]error, len(p.config.Machines))
	p.each(ctx, func(i int, m *Host) { answers[i], errs[i] = p.ask(ctx, m, request{op: "look"}) })
	return answers, errs
}

// List returns the workspaces of an installation. What is on machines that did not answer is not known, and the error
// (provider.PartialListing) says which those are.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	answers, errs := p.looks(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var list []provider.Instance
	missing := map[string]error{}
	for i, a := range answers {
		m := &p.config.Machines[i]
		switch {
		case errs[i] != nil:
			missing[m.Name] = errs[i]
		case a.phase != phaseClean && a.tags.Installation == installation:
			w := instance(m, a)
			w.Environment = nil
			list = append(list, w)
		}
	}
	if len(missing) > 0 {
		return list, &provider.PartialListing{Machines: missing}
	}
	return list, nil
}

// ListMachines says of every machine whether it is used (S2), ordered by id. Whose it is does not matter: what another
// installation uses is used.
func (p *Provider) ListMachines(ctx context.Context) ([]provider.Machine, error) {
	answers, errs := p.looks(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := p.clock.Now("hosts", "list").UTC()
	list := make([]provider.Machine, len(answers))
	for i, a := range answers {
		m := &p.config.Machines[i]
		list[i] = provider.Machine{
			ID: m.Name, Address: m.place(), State: provider.MachineUsed, Holder: a.tags, HolderName: a.name, SeenAt: now,
		}
		switch {
		case errs[i] != nil:
			list[i].State, list[i].Error = provider.MachinePossiblyUsed, errs[i].Error()
		case a.phase == phaseClean:
			list[i].State = provider.MachineUnused
		case a.phase == phaseDirty:
			list[i].State = provider.MachinePossiblyUsed
			list[i].Error = m.says(xerrors.Errorf("dirty: %s", a.fault)).Error()
		}
		if errs[i] != nil && a.outcome == "" { // it did not answer
			list[i].SeenAt = time.Time{}
		}
	}
	slices.SortFunc(list, func(a, b provider.Machine) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}
