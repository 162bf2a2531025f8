package docker

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Get looks one up.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	f, err := p.find(ctx, ref)
	if err != nil {
		return provider.Instance{}, err
	}
	return f.instance(), nil
}

// List returns the installation's workspaces, by name.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	all, err := p.list(ctx, "label", labelInstallation+"="+installation.String())
	if err != nil {
		return nil, err
	}
	list := make([]provider.Instance, len(all))
	for i, f := range all {
		list[i] = f.instance()
		list[i].Environment = nil
	}
	return list, nil
}

// list returns the containers of ours that a filter lets pass, in order of their names and the latest incarnation first.
func (p *Provider) list(ctx context.Context, term, value string) ([]found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := p.client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add(term, value),
	})
	if err != nil {
		return nil, p.mapped(ctx, err)
	}
	return foundIn(all.Items), nil
}

// lookup returns all that ref means. An id means the container that has it, or the one that a reset made in its place: by
// no other way does it lead to a container of the same name, which may be in use beside a twin that is to go.
func (p *Provider) lookup(ctx context.Context, ref provider.Ref) ([]found, error) {
	terms := [][2]string{{"label", labelName + "=" + ref.Name}}
	if ref.ProviderID != "" {
		terms = [][2]string{{"id", ref.ProviderID}, {"label", labelReplaces + "=" + ref.ProviderID}}
	}
	for _, term := range terms {
		all, err := p.list(ctx, term[0], term[1])
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(f found) bool {
			return ref.WorkspaceID != uuid.Nil && ref.WorkspaceID != f.tags.WorkspaceID ||
				term[0] == "id" && f.ID != ref.ProviderID
		})
		if len(all) > 0 {
			return all, nil
		}
	}
	return nil, nil
}

// find returns the one that ref means.
func (p *Provider) find(ctx context.Context, ref provider.Ref) (found, error) {
	all, err := p.lookup(ctx, ref)
	if err == nil && len(all) == 0 {
		err = provider.ErrNotFound
	}
	if err != nil {
		return found{}, err
	}
	return all[0], nil
}
