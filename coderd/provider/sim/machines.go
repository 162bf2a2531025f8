package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const maxMachines = 1_000

// Fleet is a cloud that has machines and makes workspaces on nothing else. What is on a machine says whose it is.
type Fleet struct{ *Provider }

var _ interface {
	provider.Provider
	provider.Resetter
	provider.Stopper
	provider.Reserver
} = Fleet{}

// Offered is the provider with the methods that its configuration says it has a use for.
func (p *Provider) Offered() provider.Provider {
	if p.machines > 0 {
		return Fleet{p}
	}
	return p
}

// MachineID is the name of a machine, of which the first is 1.
func MachineID(n int) string { return fmt.Sprintf("m%04d", n) }

func (p *Provider) checkMachine(id string) error {
	if p.machines == 0 {
		return nil
	}
	var n int
	if _, err := fmt.Sscanf(id, "m%d", &n); err != nil || n < 1 || n > p.machines || id != MachineID(n) {
		return xerrors.Errorf("machine %q is not one of %d: %w", id, p.machines, provider.ErrNoMachine)
	}
	return nil
}

func address(machine string) string { return "sim/" + machine }

// ListMachines says of every machine whether it is used. Whose it is does not matter.
func (f Fleet) ListMachines(ctx context.Context) ([]provider.Machine, error) {
	p := f.Provider
	before, after := hangs(p.dice("", "machines"), p.behavior)
	if err := p.delay(ctx, 0, before || after); err != nil {
		return nil, err
	}
	now := p.clock.Now().UTC()
	list := make([]provider.Machine, p.machines)
	for i := range list {
		m := provider.Machine{ID: MachineID(i + 1), State: provider.MachineUsed, SeenAt: now}
		m.Address = address(m.ID)
		switch r, err := p.store.get(m.ID); {
		case errors.Is(err, fs.ErrNotExist):
			m.State = provider.MachineUnused
		case err != nil:
			m.State, m.Error = provider.MachinePossiblyUsed, ofMachine(m.ID, err).Error()
		default:
			m.Holder, m.HolderName = r.Tags, r.Name
		}
		list[i] = m
	}
	return list, nil
}

func ofMachine(id string, err error) error {
	return xerrors.Errorf("machine %s (%s): %w", id, address(id), err)
}

// insert puts a resource where it belongs. A machine that has another, or of which nobody can say what it has, is not free.
func (p *Provider) insert(r Resource) (Resource, error) {
	if p.machines > 0 {
		there, err := p.onMachine(provider.Ref{Name: r.Name})
		if err == nil {
			return there, nil
		}
		if _, whole := provider.Partial(err); whole != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	there, err := p.store.insert(r)
	switch {
	case p.machines == 0:
		return there, err
	case errors.Is(err, errUnreadable):
		return r, xerrors.Errorf("%s: %w", ofMachine(r.Machine, err).Error(), provider.ErrMachineTaken)
	case err == nil && there.Name != r.Name:
		return r, ofMachine(r.Machine, xerrors.Errorf("it is of %s: %w", there.Name, provider.ErrMachineTaken))
	}
	return there, err
}

// each gives all that there is to f. What is on machines that cannot be read is a partial listing.
func (p *Provider) each(f func(Resource)) error {
	if p.machines == 0 {
		return p.store.each(f)
	}
	missing := map[string]error{}
	for n := range p.machines {
		id := MachineID(n + 1)
		switch r, err := p.store.get(id); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			missing[id] = ofMachine(id, err)
		default:
			f(r)
		}
	}
	if len(missing) > 0 {
		return &provider.PartialListing{Machines: missing}
	}
	return nil
}

// onMachine finds what ref means: on the machine that it names, else on any. Where one cannot be read, it may be there.
func (p *Provider) onMachine(ref provider.Ref) (found Resource, err error) {
	meant := func(r Resource) bool {
		return (ref.Name == "" || r.Name == ref.Name) && (ref.ProviderID == "" || r.ProviderID == ref.ProviderID)
	}
	if ref.Machine != "" {
		if err := p.checkMachine(ref.Machine); err != nil {
			return found, err
		}
		r, err := p.store.get(ref.Machine)
		switch {
		case errors.Is(err, errUnreadable):
			return r, ofMachine(ref.Machine, err)
		case err == nil && !meant(r):
			return r, fs.ErrNotExist
		}
		return r, err
	}
	there := false
	err = p.each(func(r Resource) {
		if meant(r) {
			found, there = r, true
		}
	})
	if there {
		return found, nil
	}
	err = cmp.Or(err, fs.ErrNotExist)
	return found, err
}
