package sim

import (
	"github.com/google/uuid"
)

// Count is the number of resources there are, of all installations.
func (p *Provider) Count() (int, error) {
	n := 0
	err := p.store.each(func(Resource) { n++ })
	return n, err
}

// All are the resources there are, of all installations, in no order.
func (p *Provider) All() ([]Resource, error) {
	var all []Resource
	if err := p.store.each(func(r Resource) { all = append(all, r) }); err != nil {
		return nil, err
	}
	return all, nil
}

// History is everything that was ever created and deleted, by all processes, in order.
func (p *Provider) History() ([]Event, error) { return p.store.history() }

// Duplicates returns the workspaces that ever had more than one resource at a time, with the most they had. That it is
// empty is what 'exactly one' means.
func (p *Provider) Duplicates() (map[uuid.UUID]int, error) {
	events, err := p.History()
	if err != nil {
		return nil, err
	}
	alive := map[uuid.UUID]map[string]bool{}
	most := map[uuid.UUID]int{}
	for _, e := range events {
		resources := alive[e.WorkspaceID]
		switch {
		case e.Deleted:
			delete(resources, e.ProviderID)
		case resources == nil:
			alive[e.WorkspaceID] = map[string]bool{e.ProviderID: true}
		default:
			resources[e.ProviderID] = true
		}
		if n := len(resources); n > 1 && n > most[e.WorkspaceID] {
			most[e.WorkspaceID] = n
		}
	}
	return most, nil
}
