package external

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/cloudbase/garm-provider-common/execution/common"
	"github.com/cloudbase/garm-provider-common/params"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	exitNotFound  = common.ExitCodeNotFound
	exitDuplicate = common.ExitCodeDuplicate
)

// Get looks a workspace up.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	return p.find(ctx, ref)
}

// List returns the workspaces of the installation. What is in its pool and has no workspace's id in its name is passed
// over: somebody else uses the same controller id and pool id.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	list, err := p.list(ctx, installation)
	for i := range list {
		list[i].Environment = nil
	}
	return list, err
}

func (p *Provider) list(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	var answer []params.ProviderInstance
	err := p.ask(ctx, request{command: common.ListInstancesCommand, installation: installation}, &answer)
	if err != nil {
		return nil, err
	}
	var list []provider.Instance
	for _, raw := range answer {
		if i, ok := instanceOf(raw, installation); ok {
			list = append(list, i)
		}
	}
	return list, nil
}

// find looks one up by the provider's id, which every executable can. A look-up that fails need not mean a failure, so
// the listing has the last word; and by name it has the only one, since some executables look for names in the wrong
// place.
func (p *Provider) find(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	if ref.ProviderID == "" {
		return p.findListed(ctx, ref)
	}
	var answer params.ProviderInstance
	err := p.ask(ctx, request{command: common.GetInstanceCommand, instance: ref.ProviderID}, &answer)
	var failed *exitError
	switch {
	case exitedWith(err, exitNotFound):
		return provider.Instance{}, provider.ErrNotFound
	case errors.As(err, &failed):
		i, listErr := p.findListed(ctx, ref)
		if listErr != nil && !errors.Is(listErr, provider.ErrNotFound) {
			return i, err // of the two, what was said about this one
		}
		return i, listErr
	case err != nil:
		return provider.Instance{}, err
	}
	i, ok := instanceOf(answer, p.installation)
	if !ok || !meant(ref, i) {
		return provider.Instance{}, provider.ErrNotFound
	}
	return i, nil
}

// findListed looks one up in the listing.
func (p *Provider) findListed(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	list, err := p.list(ctx, p.installation)
	if err != nil {
		return provider.Instance{}, err
	}
	for _, i := range list {
		if meant(ref, i) {
			return i, nil
		}
	}
	return provider.Instance{}, provider.ErrNotFound
}

// meant says whether ref is about i.
func meant(ref provider.Ref, i provider.Instance) bool {
	return (ref.Name == "" || ref.Name == i.Name) &&
		(ref.ProviderID == "" || ref.ProviderID == i.ProviderID) &&
		(ref.WorkspaceID == uuid.Nil || ref.WorkspaceID == i.Tags.WorkspaceID)
}

// instanceOf puts what the executable says into our words. It is false for what is not ours, or gone already: some
// clouds go on listing what was deleted.
func instanceOf(raw params.ProviderInstance, installation uuid.UUID) (provider.Instance, bool) {
	raw.Name = cmp.Or(raw.Name, raw.ProviderID)
	raw.ProviderID = cmp.Or(raw.ProviderID, raw.Name)
	name, workspaceID, ok := parseResourceName(raw.Name)
	if !ok || raw.Status == params.InstanceDeleted {
		return provider.Instance{}, false
	}
	i := provider.Instance{
		ProviderID: raw.ProviderID,
		Name:       name,
		Tags:       provider.Tags{Installation: installation, WorkspaceID: workspaceID, Incarnation: 1},
		Status:     provider.StatusUnknown,
		OSName:     strings.TrimSpace(raw.OSName), OSVersion: strings.TrimSpace(raw.OSVersion),
		Environment: map[string]string{
			"PREWARM_WORKSPACE": name, "PREWARM_WORKSPACE_ID": workspaceID.String(),
		},
	}
	switch raw.Status {
	case params.InstanceRunning:
		i.Status = provider.StatusRunning
	case params.InstanceStopped:
		i.Status = provider.StatusStopped
	case params.InstanceError:
		i.Status, i.Fault = provider.StatusError, strings.TrimSpace(secrets(nil).redact(string(raw.ProviderFault)))
	default: // deleting, and what is not in the protocol: pending_create, building …
	}
	for _, a := range raw.Addresses {
		if a.Address != "" {
			i.Addresses = append(i.Addresses, provider.Address{Type: string(a.Type), Address: a.Address})
		}
	}
	return i, true
}
