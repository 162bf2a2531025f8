package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerForges() {
	answer(s, operation{
		id: "list-forge-credentials", method: http.MethodGet, path: "/forges/credentials", action: auth.ActReadForges,
		tag: "forges", summary: "List the credentials for forges, without their secrets",
	}, s.listForgeCredentials)
	answer(s, operation{
		id: "list-forges", method: http.MethodGet, path: "/forges", action: auth.ActReadForges, tag: "forges",
		summary: "List repositories, organizations and enterprises of forges, and how it goes with them",
	}, s.listForges)
	answer(s, operation{
		id: "get-forge", method: http.MethodGet, path: "/forges/{forge}", action: auth.ActReadForges, tag: "forges",
		summary: "Show one entity of a forge",
	}, s.getForge)
	s.registerForgeChanges()
	s.registerForgeHooks()
}

func (s *server) listForgeCredentials(ctx context.Context, who auth.Identity, _ *none) ([]sdk.ForgeCredential, error) {
	rows, err := viewsdb.New(s.Store).ForgeCredentialViews(ctx, viewsdb.ForgeCredentialViewsParams{OrganizationID: who.OrganizationID})
	if err != nil {
		return nil, xerrors.Errorf("list forge credentials: %w", err)
	}
	return lists.Of(rows, forgeCredentialOf), nil
}

func forgeCredentialOf(row viewsdb.ForgeCredentialViewsRow) sdk.ForgeCredential {
	return sdk.ForgeCredential{
		Name: row.Name, Kind: string(row.Kind), URL: row.Url, Auth: string(row.Auth), CABundle: row.HasCaBundle,
		SealedBy: row.SealedBy, Entities: int(row.Entities), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
		AppID: database.OrZero(row.AppID), InstallationID: database.OrZero(row.InstallationID),
	}
}

func (s *server) listForges(ctx context.Context, who auth.Identity, _ *none) ([]sdk.ForgeEntity, error) {
	rows, err := viewsdb.New(s.Store).ForgeEntityViews(ctx, viewsdb.ForgeEntityViewsParams{OrganizationID: who.OrganizationID})
	if err != nil {
		return nil, xerrors.Errorf("list forges: %w", err)
	}
	return lists.Of(rows, func(row viewsdb.ForgeEntityViewsRow) sdk.ForgeEntity { return s.forgeEntityOf(ctx, row) }), nil
}

type forgeInput struct {
	Forge string `path:"forge" doc:"Name of the entity"`
}

// forgeBody is a forgeInput with what is asked of the entity.
type forgeBody[T any] struct {
	Forge string `path:"forge" doc:"Name of the entity"`
	Body  T
}

func (s *server) getForge(ctx context.Context, who auth.Identity, in *forgeInput) (sdk.ForgeEntity, error) {
	return s.forgeNamed(ctx, who, in.Forge)
}

func (s *server) forgeNamed(ctx context.Context, who auth.Identity, name string) (sdk.ForgeEntity, error) {
	rows, err := viewsdb.New(s.Store).ForgeEntityViews(ctx, viewsdb.ForgeEntityViewsParams{
		OrganizationID: who.OrganizationID, Name: &name,
	})
	if err != nil {
		return sdk.ForgeEntity{}, xerrors.Errorf("read forge: %w", err)
	}
	if len(rows) == 0 {
		return sdk.ForgeEntity{}, s.unknownForge(ctx, who, name)
	}
	return s.forgeEntityOf(ctx, rows[0]), nil
}

// unknownForge says which entities there are.
func (s *server) unknownForge(ctx context.Context, who auth.Identity, name string) error {
	rows, err := viewsdb.New(s.Store).ForgeEntityNames(ctx, who.OrganizationID)
	if err != nil {
		return xerrors.Errorf("list names of forges: %w", err)
	}
	names := lists.Of(rows, func(row viewsdb.ForgeEntityNamesRow) string { return row.Name })
	return auth.Refuse(auth.ErrNotFound, "there is no forge %q%s", name, templates.Known(name, names, "forge"))
}

// forgeFilter is the entity that a listing is narrowed to; null where no name was given.
func (s *server) forgeFilter(ctx context.Context, who auth.Identity, name string) (uuid.NullUUID, error) {
	if name == "" {
		return uuid.NullUUID{}, nil
	}
	rows, err := viewsdb.New(s.Store).ForgeEntityNames(ctx, who.OrganizationID)
	if err != nil {
		return uuid.NullUUID{}, xerrors.Errorf("list names of forges: %w", err)
	}
	for _, row := range rows {
		if row.Name == name {
			return uuid.NullUUID{UUID: row.ID, Valid: true}, nil
		}
	}
	return uuid.NullUUID{}, s.unknownForge(ctx, who, name)
}

func (s *server) forgeEntityOf(ctx context.Context, row viewsdb.ForgeEntityViewsRow) sdk.ForgeEntity {
	if row.Error == "" { // the forge may answer while its webhooks cannot be believed
		if e, err := s.Forges.Directory.ByID(ctx, row.ID); err == nil && e.Err != nil {
			row.Error = e.Err.Error()
		}
	}
	e := sdk.ForgeEntity{
		ID: row.ID, Name: row.Name, Kind: string(row.Kind), Scope: string(row.Scope), Path: row.Path,
		Credential: row.Credential, Balance: row.Balance, WebhookURL: s.webhookURL(row.Name), Presets: row.Presets,
		Queued: int(row.Queued), Unserved: int(row.Unserved), InProgress: int(row.InProgress), Runners: int(row.Runners),
		CreatedAt: row.CreatedAt, StoppedAt: row.StoppedAt, SecretOverlap: inFuture(row.BeforeUntil, row.Now),
		HookID: database.OrZero(row.HookID),
		Status: sdk.ForgeStatus{
			Running: row.StoppedAt == nil && row.Error == "", Error: row.Error, ErrorAt: row.ErrorAt,
			SucceededAt: row.SucceededAt, Checked: row.CredentialChecked, WaitUntil: inFuture(row.WaitUntil, row.Now), RateLimit: int(row.RateLimit),
			RateRemaining: int(row.RateRemaining), RateResetAt: row.RateResetAt, DeliveryAt: row.DeliveryAt,
			Waiting: int(row.Waiting),
		},
	}
	if e.Status.RunnersWaitUntil = inFuture(row.RunnersWaitUntil, row.Now); e.Status.RunnersWaitUntil != nil {
		e.Status.RunnersError = row.RunnersError
	}
	if row.StoppedAt != nil {
		e.Stopped, e.Draining = row.StoppedReason, row.Drains
	}
	return e
}

// webhookURL is where the forge sends the deliveries of an entity.
func (s *server) webhookURL(name string) string { return s.AccessURL + "/webhooks/" + name }

// inFuture is a time unless it has passed.
func inFuture(at *time.Time, now time.Time) *time.Time {
	if at == nil || !at.After(now) {
		return nil
	}
	return at
}
