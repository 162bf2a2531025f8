package coderd

import (
	"context"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/examples"
)

// quickstart applies examples/quickstart.yaml where there is no template yet.
func (r *server) quickstart(ctx context.Context) error {
	names, err := viewsdb.New(r.store).TemplateNames(ctx, auth.DefaultOrganizationID)
	if err != nil {
		return xerrors.Errorf("look for templates: %w", err)
	}
	if len(names) > 0 {
		return nil
	}
	by := auth.Identity{
		Principal: auth.Principal{UserID: workspaces.Prewarm, User: "prewarm"},
		Membership: auth.Membership{
			// Whoever starts the server owns it, and its providers.
			OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner,
		},
		Source: r.opts.Replica,
	}
	_, err = r.replica.Templates.Apply(ctx, templates.Request{By: by, File: "quickstart.yaml", Source: examples.Quickstart})
	if err != nil {
		return xerrors.Errorf("apply the quickstart: %w", err)
	}
	r.log.Info(ctx, "made the template quickstart", slog.F("preset", "quickstart/default"))
	return nil
}
