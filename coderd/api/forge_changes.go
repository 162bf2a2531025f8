package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerForgeChanges() {
	answer(s, operation{
		id: "put-forge-credential", method: http.MethodPut, path: "/forges/credentials/{credential}",
		action: auth.ActWriteForges, tag: "forges", summary: "Make a credential for a forge, or change what is given of one",
		description: "Its secret is sealed with a key that is not in the database, and never shown. All replicas use the new " +
			"one within a second.",
	}, s.putForgeCredential)
	act(s, operation{
		id: "delete-forge-credential", method: http.MethodDelete, path: "/forges/credentials/{credential}",
		action: auth.ActWriteForges, tag: "forges",
		summary: "Delete a credential that no entity uses",
	}, s.deleteForgeCredential)
	answer(s, operation{
		id: "put-forge", method: http.MethodPut, path: "/forges/{forge}", action: auth.ActWriteForges, tag: "forges",
		summary: "Make an entity, or change what is given of one",
		description: "A webhook secret that was made by chance is in the answer, this once. With another one, the one before " +
			"stays good for overlap_s.",
	}, s.putForge)
	act(s, operation{
		id: "delete-forge", method: http.MethodDelete, path: "/forges/{forge}", action: auth.ActWriteForges, tag: "forges",
		summary: "Delete an entity that no preset names and that has no runners",
	}, s.deleteForge)
	answer(s, operation{
		id: "stop-forge", method: http.MethodPost, path: "/forges/{forge}/stop", action: auth.ActWriteForges, tag: "forges",
		summary: "Make no new runners for an entity for now",
		description: "Neither its jobs nor the least number of idle runners make any. With drain those without a job go too; " +
			"one with a job finishes it. Without drain, idle ones stay, and a drain of an earlier stop ends.",
	}, s.stopForge)
	answer(s, operation{
		id: "start-forge", method: http.MethodPost, path: "/forges/{forge}/start", action: auth.ActWriteForges, tag: "forges",
		summary: "Make runners for an entity again",
	}, s.startForge)
	answer(s, operation{
		id: "rotate-forge-secret", method: http.MethodPost, path: "/forges/{forge}/rotate-secret",
		action: auth.ActWriteForges, tag: "forges", summary: "Give an entity another webhook secret",
		description: "The one before stays good for overlap_s. A webhook that Prewarm installed gets the new one.",
	}, s.rotateForgeSecret)
	answer(s, operation{
		id: "reseal-forges", method: http.MethodPost, path: "/forges/reseal", action: auth.ActResealForges, tag: "forges",
		summary:     "Seal all secrets with the first encryption key of the replica that answers",
		description: "After it, and once every replica has the key, the keys before can be taken out of the files.",
	}, s.resealForges)
}

type putCredentialInput struct {
	Credential string `path:"credential"`
	Body       sdk.PutForgeCredential
}

func (s *server) putForgeCredential(
	ctx context.Context, who auth.Identity, in *putCredentialInput,
) (sdk.ForgeCredential, error) {
	if err := s.Forges.PutCredential(ctx, who, in.Credential, entities.Credential(in.Body)); err != nil {
		return sdk.ForgeCredential{}, err
	}
	rows, err := viewsdb.New(s.Store).ForgeCredentialViews(ctx, viewsdb.ForgeCredentialViewsParams{
		OrganizationID: who.OrganizationID, Name: &in.Credential,
	})
	if err != nil {
		return sdk.ForgeCredential{}, xerrors.Errorf("read forge credential: %w", err)
	}
	if len(rows) == 0 {
		return sdk.ForgeCredential{}, auth.Refuse(auth.ErrNotFound, "credential %s was deleted since", in.Credential)
	}
	return forgeCredentialOf(rows[0]), nil
}

type credentialInput struct {
	Credential string `path:"credential"`
}

func (s *server) deleteForgeCredential(ctx context.Context, who auth.Identity, in *credentialInput) error {
	found, err := s.Forges.DeleteCredential(ctx, who, in.Credential)
	if err != nil || found {
		return err
	}
	names, err := s.credentialNames(ctx, who)
	if err != nil {
		return err
	}
	return noCredential(auth.ErrNotFound, in.Credential, names)
}

func (s *server) credentialNames(ctx context.Context, who auth.Identity) ([]string, error) {
	all, err := s.listForgeCredentials(ctx, who, &none{})
	if err != nil {
		return nil, err
	}
	return lists.Of(all, func(c sdk.ForgeCredential) string { return c.Name }), nil
}

// noCredential says which credentials there are.
func noCredential(kind error, name string, names []string) error {
	return auth.Refuse(kind, "there is no credential %q%s", name, templates.Known(name, names, "credential"))
}

func (s *server) putForge(ctx context.Context, who auth.Identity, in *forgeBody[sdk.PutForgeEntity]) (sdk.SavedForgeEntity, error) {
	if in.Body.Credential != "" {
		names, err := s.credentialNames(ctx, who)
		if err != nil {
			return sdk.SavedForgeEntity{}, err
		}
		if !slices.Contains(names, in.Body.Credential) {
			return sdk.SavedForgeEntity{}, noCredential(auth.ErrInvalid, in.Body.Credential, names)
		}
	}
	made, err := s.Forges.Put(ctx, who, in.Forge, entities.Change{
		Scope: in.Body.Scope, Path: in.Body.Path, Credential: in.Body.Credential, Balance: in.Body.Balance,
		WebhookSecret: in.Body.WebhookSecret, Overlap: time.Duration(in.Body.OverlapS) * time.Second,
	})
	if err != nil {
		return sdk.SavedForgeEntity{}, err
	}
	return s.savedForge(ctx, who, in.Forge, made, in.Body.WebhookSecret != "")
}

func (s *server) rotateForgeSecret(
	ctx context.Context, who auth.Identity, in *forgeBody[sdk.RotateForgeSecret],
) (sdk.SavedForgeEntity, error) {
	if _, err := s.forgeNamed(ctx, who, in.Forge); err != nil {
		return sdk.SavedForgeEntity{}, err
	}
	made, err := s.Forges.Rotate(ctx, who, in.Forge, entities.Change{
		WebhookSecret: in.Body.WebhookSecret, Overlap: time.Duration(in.Body.OverlapS) * time.Second,
	})
	if err != nil {
		return sdk.SavedForgeEntity{}, err
	}
	return s.savedForge(ctx, who, in.Forge, made, true)
}

// savedForge answers with an entity after a change. A webhook of ours is told a new secret; if the forge would not be told,
// the change holds all the same, and the secret before is good for a while yet.
func (s *server) savedForge(
	ctx context.Context, who auth.Identity, name, made string, tell bool,
) (sdk.SavedForgeEntity, error) {
	entity, err := s.forgeNamed(ctx, who, name)
	if err != nil {
		return sdk.SavedForgeEntity{}, err
	}
	s.Hints.DemandChanged()
	saved := sdk.SavedForgeEntity{ForgeEntity: entity, WebhookSecret: made}
	if tell && entity.HookID != 0 {
		if _, err := s.installHook(ctx, who, name, false); err != nil {
			saved.HookError = err.Error()
		}
	}
	return saved, nil
}

func (s *server) deleteForge(ctx context.Context, who auth.Identity, in *forgeInput) error {
	if _, err := s.forgeNamed(ctx, who, in.Forge); err != nil {
		return err
	}
	if err := s.Forges.Delete(ctx, who, in.Forge); err != nil {
		return err
	}
	s.Hints.DemandChanged()
	return nil
}

func (s *server) stopForge(ctx context.Context, who auth.Identity, in *forgeBody[sdk.StopForgeEntity]) (sdk.ForgeEntity, error) {
	return s.changedForge(ctx, who, in.Forge, in.Body.Reason, in.Body.Drain)
}

func (s *server) startForge(ctx context.Context, who auth.Identity, in *forgeInput) (sdk.ForgeEntity, error) {
	return s.changedForge(ctx, who, in.Forge, "", false)
}

func (s *server) changedForge(
	ctx context.Context, who auth.Identity, name, reason string, drain bool,
) (sdk.ForgeEntity, error) {
	if _, err := s.forgeNamed(ctx, who, name); err != nil {
		return sdk.ForgeEntity{}, err
	}
	affected, err := s.Forges.Stop(ctx, who, name, reason, drain)
	if err != nil {
		return sdk.ForgeEntity{}, err
	}
	s.Hints.DemandChanged()
	s.Hints.Nudge(affected...)
	return s.forgeNamed(ctx, who, name)
}

func (s *server) resealForges(ctx context.Context, who auth.Identity, _ *none) (sdk.Resealed, error) {
	r, err := s.Forges.Reseal(ctx, who)
	if err != nil {
		return sdk.Resealed{}, err
	}
	return sdk.Resealed{SealedBy: r.Key, Credentials: r.Credentials, Entities: r.Entities, SigningKeys: r.SigningKeys, States: r.States}, nil
}

// badGateway tells what the forge said.
func badGateway(name string, err error) error {
	return huma.Error502BadGateway("forge " + name + ": " + err.Error())
}
