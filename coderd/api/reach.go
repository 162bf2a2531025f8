package api

import (
	"context"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// reach finds a workspace that who may enter, and its provider as a T. It refuses with 421 where another replica
// reaches the workspace, and with 501 where its provider has no T; doing says what T is for.
func reach[T any](
	ctx context.Context, s *server, who auth.Identity, ref, doing string,
) (viewsdb.WorkspaceViewRow, T, error) {
	var capable T
	row, err := s.findWorkspace(ctx, who, auth.ActEnterWorkspace, ref)
	if err != nil {
		return row, capable, err
	}
	p, err := s.Providers.Get(row.Provider)
	// What takes a state is known by it, and speaks of its runs, before it says what it has made.
	_, known := provider.As[provider.StateTaker](p)
	if row.ProviderID == "" && !known || row.State == database.WorkspaceStateDeleted {
		return row, capable, auth.Refuse(auth.ErrConflict, "workspace %s is %s: there is nothing to reach at its provider",
			row.Name, row.State)
	}
	if row.Site != "" && !slices.Contains(s.Providers.Sites(), row.Site) {
		return row, capable, s.elsewhere(ctx, row)
	}
	if err != nil {
		return row, capable, huma.Error503ServiceUnavailable(
			"provider " + row.Provider + " does not work here: " + err.Error())
	}
	capable, ok := provider.As[T](p)
	if !ok {
		return row, capable, huma.Error501NotImplemented("provider " + row.Provider + " cannot " + doing)
	}
	return row, capable, nil
}

// elsewhere names the replicas to ask instead.
func (s *server) elsewhere(ctx context.Context, row viewsdb.WorkspaceViewRow) error {
	replicas, err := viewsdb.New(s.Store).ReplicasOfSite(ctx, row.Site)
	if err != nil {
		return xerrors.Errorf("find replicas of site: %w", err)
	}
	if len(replicas) == 0 {
		return huma.Error421MisdirectedRequest("workspace " + row.Name + " is reached only from site " + row.Site +
			", and no replica of that site is alive")
	}
	names := lists.Of(replicas, func(r viewsdb.ReplicasOfSiteRow) string { return r.Name + " (http://" + r.Address + ")" })
	return huma.Error421MisdirectedRequest("workspace " + row.Name + " is reached only from another replica: ask " +
		strings.Join(names, " or ") + " with --url")
}

func refOf(row viewsdb.WorkspaceViewRow) provider.Ref {
	return provider.Ref{Name: row.Name, ProviderID: row.ProviderID, WorkspaceID: row.ID}
}
