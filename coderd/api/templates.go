package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type templateInput struct {
	Name string `path:"template" doc:"Name of the template"`
}

type getTemplateInput struct {
	Name     string `path:"template" doc:"Name of the template"`
	Versions bool   `query:"versions" default:"true" doc:"With all of its versions and their specs; they may be many"`
}

func (s *server) registerTemplates() {
	answer(s, operation{
		id: "list-templates", method: http.MethodGet, path: "/templates", action: auth.ActReadTemplates,
		tag: "templates", summary: "List templates",
	}, s.listTemplates)
	answer(s, operation{
		id: "get-template", method: http.MethodGet, path: "/templates/{template}", action: auth.ActReadTemplates,
		tag: "templates", summary: "Show a template with its versions",
	}, s.getTemplate)
	answer(s, operation{
		id: "rollback-template", method: http.MethodPost, path: "/templates/{template}/rollback",
		action: auth.ActRollBack, tag: "templates", summary: "Make the version that was active before the active one again",
	}, s.rollbackTemplate)
	act(s, operation{
		id: "deprecate-template", method: http.MethodPost, path: "/templates/{template}/deprecate",
		action: auth.ActDeprecateTemplate, tag: "templates",
		summary: "Scale a template's pools to zero and end claims from it",
	}, s.retire((*templates.Service).Deprecate))
	act(s, operation{
		id: "undeprecate-template", method: http.MethodDelete, path: "/templates/{template}/deprecate",
		action: auth.ActDeprecateTemplate, tag: "templates",
		summary: "Let a template's pools fill again",
	}, s.retire((*templates.Service).Undeprecate))
	act(s, operation{
		id: "delete-template", method: http.MethodDelete, path: "/templates/{template}", action: auth.ActDeleteTemplate,
		tag:     "templates",
		summary: "Delete a template; claimed workspaces stay until they are released",
	}, s.retire((*templates.Service).Delete))
}

func (s *server) listTemplates(ctx context.Context, who auth.Identity, _ *none) ([]sdk.Template, error) {
	rows, err := viewsdb.New(s.Store).TemplateViews(ctx, viewsdb.TemplateViewsParams{OrganizationID: who.OrganizationID})
	if err != nil {
		return nil, xerrors.Errorf("list templates: %w", err)
	}
	return lists.Of(rows, templateOf), nil
}

func (s *server) getTemplate(ctx context.Context, who auth.Identity, in *getTemplateInput) (sdk.Template, error) {
	row, err := s.findTemplate(ctx, who, in.Name)
	if err != nil {
		return sdk.Template{}, err
	}
	t := templateOf(row)
	if !in.Versions {
		return t, nil
	}
	versions, err := viewsdb.New(s.Store).VersionViews(ctx, row.ID)
	if err != nil {
		return sdk.Template{}, xerrors.Errorf("list versions: %w", err)
	}
	for _, v := range versions {
		agent, err := agentConfigOf(v.Agent)
		if err != nil {
			return sdk.Template{}, err
		}
		t.Versions = append(t.Versions, sdk.Version{
			ID: v.ID, Number: int(v.Number), Hash: v.Hash, Active: v.Active, Provider: v.Provider, Spec: v.Spec,
			Agent: agent, CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy,
		})
	}
	return t, nil
}

// retire is the handler of deprecate, undeprecate and delete, which differ only in what they call.
func (s *server) retire(
	do func(*templates.Service, context.Context, auth.Identity, string) (uuid.UUID, error),
) func(context.Context, auth.Identity, *templateInput) error {
	return func(ctx context.Context, who auth.Identity, in *templateInput) error {
		id, err := do(s.Templates, ctx, who, in.Name)
		if err != nil {
			return err
		}
		if id != uuid.Nil {
			s.Hints.Nudge(id)
			s.Hints.DemandChanged()
		}
		return nil
	}
}

func templateOf(row viewsdb.TemplateViewsRow) sdk.Template {
	t := sdk.Template{
		ID: row.ID, Organization: row.Organization, Name: row.Name, Description: row.Description, Provider: row.Provider,
		ActiveVersion: int(row.ActiveVersion), KeepOutdated: row.KeepOutdated,
		BootTimeout: inSeconds(row.BootTimeoutS), Presets: row.Presets, KeepFailures: int(row.KeepFailures), MaxUses: int(row.MaxUses),
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, DeprecatedAt: row.DeprecatedAt,
		MaxSurge: row.MaxSurge, MaxUnavailable: row.MaxUnavailable, CreatesInFlight: int(database.OrZero(row.CreatesInFlight)),
		ProgressDeadline: inSeconds(row.ProgressDeadlineS),
	}
	if row.KeepFailures > 0 {
		t.KeepTTL = inSeconds(row.KeepFailuresS)
	}
	return t
}
