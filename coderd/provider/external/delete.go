package external

import (
	"context"
	"errors"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Delete deletes until the executable, or the listing, says that there is nothing. It asks the executable even where a
// look-up finds nothing: what an interrupted create left need not be visible yet.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	if err := p.delete(ctx, ref); err != nil {
		return xerrors.Errorf("delete workspace %s: %w", ref.Name, err)
	}
	return nil
}

func (p *Provider) delete(ctx context.Context, ref provider.Ref) error {
	id, err := p.own(ctx, ref)
	if errors.Is(err, provider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = p.deleteInstance(ctx, p.installation, id)
	var failed *exitError
	if !errors.As(err, &failed) {
		return err
	}
	// Some executables fail to delete what does not exist.
	if _, lookErr := p.findListed(ctx, ref); errors.Is(lookErr, provider.ErrNotFound) {
		return nil
	}
	return err
}
