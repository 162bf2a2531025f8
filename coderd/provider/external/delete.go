package external

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Delete deletes until the executable, or the listing, says that there is nothing. It asks the executable even where a
// look-up finds nothing: what an interrupted create left need not be visible yet.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	ids, err := p.own(ctx, ref)
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := p.deleteInstance(ctx, p.installation, id)
		var failed *exitError
		if err != nil && !errors.As(err, &failed) {
			return err
		}
		if failed == nil {
			continue
		}
		// Some executables fail to delete what does not exist.
		if _, lookErr := p.findListed(ctx, ref); !errors.Is(lookErr, provider.ErrNotFound) {
			return err
		}
	}
	return nil
}

// own is what ref means, as the executable knows it, for calls that must not hit another's: by the provider's id once it
// is known to be this workspace's, else by what the listing has, which may be several where an executable made several.
// What is not there, or not yet, has at least its name, with the workspace's id in it.
func (p *Provider) own(ctx context.Context, ref provider.Ref) ([]string, error) {
	if ref.ProviderID != "" {
		i, err := p.find(ctx, ref)
		if err == nil {
			return []string{i.ProviderID}, nil
		}
		ref.ProviderID = ""
	}
	list, err := p.list(ctx, p.installation)
	if err != nil {
		return nil, err // without it, a name that an executable can't find would pass for deleted
	}
	var ids []string
	for _, i := range list {
		if meant(ref, i) {
			ids = append(ids, i.ProviderID)
		}
	}
	if len(ids) == 0 && ref.WorkspaceID != uuid.Nil && ref.Name != "" {
		return []string{resourceName(ref.Name, ref.WorkspaceID)}, nil
	}
	return ids, nil
}
