package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerPauses() {
	answer(s, operation{
		id: "list-pauses", method: http.MethodGet, path: "/pauses", action: auth.ActReadPauses, tag: "pauses",
		summary: "List what is paused",
	}, s.listPauses)
	answer(s, operation{
		id: "create-pause", method: http.MethodPost, path: "/pauses", action: auth.ActWritePauses, tag: "pauses",
		summary:     "Stop creates and drains in a scope; claims go on",
		description: "A scope that is paused already gets the new reason and end.",
	}, s.createPause)
	act(s, operation{
		id: "delete-pause", method: http.MethodDelete, path: "/pauses", action: auth.ActWritePauses, tag: "pauses",
		summary: "Resume a scope",
	}, s.deletePause)
}

func (s *server) listPauses(ctx context.Context, who auth.Identity, _ *none) ([]sdk.Pause, error) {
	rows, err := viewsdb.New(s.Store).Pauses(ctx, who.OrganizationID)
	if err != nil {
		return nil, xerrors.Errorf("list pauses: %w", err)
	}
	return lists.Of(rows, pauseOf), nil
}

func pauseOf(r viewsdb.PausesRow) sdk.Pause {
	return sdk.Pause{
		Scope: string(r.Scope), Target: r.Target, Reason: r.Reason, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt,
		ExpiresAt: r.ExpiresAt,
	}
}

func (s *server) createPause(
	ctx context.Context, who auth.Identity, in *body[sdk.PauseRequest],
) (sdk.Pause, error) {
	expiresIn, err := parseEnd("expires_in", in.Body.ExpiresIn)
	if err != nil {
		return sdk.Pause{}, err
	}
	params := apidb.UpsertPauseParams{
		ID: uuid.New(), Scope: database.PauseScope(in.Body.Scope), Reason: in.Body.Reason, CreatedBy: who.UserID,
	}
	if params.Target, err = s.findTarget(ctx, who, in.Body.Scope, in.Body.Target); err != nil {
		return sdk.Pause{}, err
	}
	if expiresIn > 0 {
		seconds := expiresIn.Seconds()
		params.ExpiresInS = &seconds
	}
	var made apidb.UpsertPauseRow
	err = s.Store.InTx(ctx, database.TxOptions{Label: "pause"},
		func(ctx context.Context, tx pgx.Tx) error {
			before, err := pausedBefore(ctx, tx, params.Scope, params.Target)
			if err != nil {
				return err
			}
			if made, err = apidb.New(tx).UpsertPause(ctx, params); err != nil {
				return xerrors.Errorf("write pause: %w", err)
			}
			return recordPause(ctx, tx, who, "pause.create", in.Body.Scope, in.Body.Target, before,
				map[string]any{"reason": params.Reason, "expires_at": made.ExpiresAt})
		})
	if err != nil {
		return sdk.Pause{}, err
	}
	// A pass tells the pools' watchers, and learns when the pause ends.
	if err := s.nudgeScope(ctx, params.Scope, params.Target); err != nil {
		return sdk.Pause{}, err
	}
	return sdk.Pause{
		Scope: in.Body.Scope, Target: in.Body.Target, Reason: in.Body.Reason, CreatedBy: who.User,
		CreatedAt: made.CreatedAt, ExpiresAt: made.ExpiresAt,
	}, nil
}

type resumeInput struct {
	Scope  string `query:"scope" required:"true" enum:"global,provider,template,preset"`
	Target string `query:"target" doc:"Provider, template or template/preset"`
}

// deletePause resumes, and asks for a pass over what was paused. What is not paused is resumed already.
func (s *server) deletePause(ctx context.Context, who auth.Identity, in *resumeInput) error {
	target, err := s.findTarget(ctx, who, in.Scope, in.Target)
	if err != nil {
		return err
	}
	scope := database.PauseScope(in.Scope)
	err = s.Store.InTx(ctx, database.TxOptions{Label: "resume"},
		func(ctx context.Context, tx pgx.Tx) error {
			before, err := pausedBefore(ctx, tx, scope, target)
			if err != nil || before == nil {
				return err
			}
			if _, err := apidb.New(tx).DeletePause(ctx, apidb.DeletePauseParams{Scope: scope, Target: target}); err != nil {
				return xerrors.Errorf("delete pause: %w", err)
			}
			return recordPause(ctx, tx, who, "pause.delete", in.Scope, in.Target, before, nil)
		})
	if err != nil {
		return err
	}
	return s.nudgeScope(ctx, scope, target)
}

// nudgeScope asks for a pass over what a pause covers.
func (s *server) nudgeScope(ctx context.Context, scope database.PauseScope, target string) error {
	affected, err := viewsdb.New(s.Store).TemplatesInScope(ctx, viewsdb.TemplatesInScopeParams{Scope: scope, Target: target})
	if err != nil {
		return xerrors.Errorf("find templates to nudge: %w", err)
	}
	s.Hints.Nudge(affected...)
	return nil
}

// pausedBefore is the pause of a scope for the record, nil where there is none.
func pausedBefore(ctx context.Context, db database.DBTX, scope database.PauseScope, target string) (any, error) {
	row, err := apidb.New(db).LockPause(ctx, apidb.LockPauseParams{Scope: scope, Target: target})
	if database.NoRows(err) {
		return nil, nil //nolint:nilnil // Not paused.
	}
	if err != nil {
		return nil, xerrors.Errorf("read pause: %w", err)
	}
	return map[string]any{"reason": row.Reason, "expires_at": row.ExpiresAt}, nil
}

func recordPause(
	ctx context.Context, db database.DBTX, who auth.Identity, action, scope, target string, before, after any,
) error {
	return auth.Record(ctx, db, auth.Entry{
		ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: action, TargetType: "pause", TargetID: scope,
		TargetName: target, Before: before, After: after, Source: who.Source,
	})
}

// findTarget is what a pause's row calls its target: a provider's name, or a template's or preset's id.
func (s *server) findTarget(ctx context.Context, who auth.Identity, scope, target string) (string, error) {
	switch scope {
	case "global":
		if target != "" {
			return "", auth.Refuse(auth.ErrInvalid, "scope global has no target: leave %q out", target)
		}
		return "", nil
	case "provider":
		return target, s.checkProvider(ctx, target)
	case "template":
		row, err := s.findTemplate(ctx, who, target)
		return row.ID.String(), err
	default:
		template, preset, ok := strings.Cut(target, "/")
		if !ok {
			return "", auth.Refuse(auth.ErrInvalid, "target %q: a preset is written template/preset", target)
		}
		id, _, err := s.findPreset(ctx, who, template, preset)
		return id.String(), err
	}
}

func (s *server) checkProvider(ctx context.Context, name string) error {
	rows, err := viewsdb.New(s.Store).Providers(ctx)
	if err != nil {
		return xerrors.Errorf("list providers: %w", err)
	}
	if slices.ContainsFunc(rows, func(r database.Provider) bool { return r.Name == name }) {
		return nil
	}
	return templates.UnknownProvider(ctx, s.Store, name)
}
