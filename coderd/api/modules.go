package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/database"
)

type (
	// ModuleRef names an archive.
	ModuleRef struct {
		Digest string `path:"digest" pattern:"^sha256:[0-9a-f]{64}$" doc:"sha256: and the SHA-256 of the archive"`
	}
	moduleInput       struct{ ModuleRef }
	uploadModuleInput struct {
		ModuleRef
		RawBody []byte `contentType:"application/x-tar"`
	}
	uploadModuleOutput struct {
		Status int
		Body   sdk.Module
	}
)

func (s *server) registerModules() {
	answer(s, operation{
		id: "show-module", method: http.MethodGet, path: "/modules/{digest}", action: auth.ActApply, tag: "templates",
		summary:     "Say whether the directory of a module is stored",
		description: "404 if it is not. `prewarm apply` uploads what is missing.",
	}, s.showModule)
	register(s, operation{
		id: "upload-module", method: http.MethodPut, path: "/modules/{digest}", action: auth.ActApply, tag: "templates",
		upload: "application/x-tar", limit: modules.MostBytes, endless: true,
		summary: "Store the directory of a module",
		description: "The body is a tar archive of at most 10 MiB: regular files, sorted by their paths. The spec of a template at a " +
			"provider `terraform` names it by its digest. 201 if it is stored now, 200 if it was there. What no template names is " +
			"deleted after a day. 409 if an organization has more than 100 MiB of that.",
	}, s.uploadModule)
}

func (s *server) showModule(ctx context.Context, who auth.Identity, in *moduleInput) (sdk.Module, error) {
	is, err := s.States.ShowArchive(ctx, who.OrganizationID, in.Digest)
	if errors.Is(err, states.ErrNoArchive) {
		return sdk.Module{}, huma.Error404NotFound("there is no module " + in.Digest)
	}
	return sdk.Module(is), err
}

func (s *server) uploadModule(ctx context.Context, who auth.Identity, in *uploadModuleInput) (*uploadModuleOutput, error) {
	out := &uploadModuleOutput{}
	err := s.Store.InTx(ctx, database.TxOptions{Label: "store module"}, func(ctx context.Context, tx pgx.Tx) error {
		is, stored, err := s.States.StoreArchive(ctx, tx, who.OrganizationID, in.Digest, in.RawBody)
		out.Status, out.Body = http.StatusOK, sdk.Module(is)
		if err != nil || !stored {
			return err
		}
		out.Status = http.StatusCreated
		return auth.Record(ctx, tx, auth.Entry{
			ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: "module.upload", TargetType: "module", TargetID: in.Digest,
			TargetName: in.Digest, After: map[string]int32{"size": is.Size}, Source: who.Source,
		})
	})
	if err != nil {
		return nil, moduleProblem(err)
	}
	return out, nil
}

// moduleProblem gives refusals of the room their status. What is none is an error as any other.
func moduleProblem(err error) error {
	refused, is := errors.AsType[*modules.Error](err)
	switch {
	case is:
		return huma.Error422UnprocessableEntity(refused.Text)
	case errors.Is(err, states.ErrDigest):
		return huma.Error422UnprocessableEntity("the archive has another digest than its address says: was it changed on the way?")
	case errors.Is(err, states.ErrUnused):
		return huma.Error409Conflict(innermost(err) + ": apply a file that names them, or wait a day until they are deleted")
	}
	return err
}
