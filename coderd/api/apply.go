package api

import (
	"context"
	"net/http"
	"slices"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
)

func (s *server) registerApply() {
	answer(s, operation{
		id: "apply", method: http.MethodPost, path: "/apply", action: auth.ActApply, tag: "templates",
		summary: "Make providers, templates, versions and presets what a file says",
		description: "All or nothing. What is wrong with the file is in the errors of a 422, each with its " +
			"file:line:column. With the id of a plan, it is refused with 409 if what the plan depends on has moved. The " +
			"document may then be left out. See docs/configuration.md.",
	}, s.apply)
}

func (s *server) apply(
	ctx context.Context, who auth.Identity, in *body[sdk.ApplyRequest],
) (sdk.ApplyResult, error) {
	req := templates.Request{By: who, File: in.Body.File, Source: in.Body.Document, DryRun: in.Body.DryRun}
	if in.Body.Plan != "" {
		if err := s.asPlanned(ctx, who, in.Body.Plan, &req); err != nil {
			return sdk.ApplyResult{}, err
		}
	}
	result, err := s.Templates.Apply(ctx, req)
	if err != nil {
		return sdk.ApplyResult{}, err
	}
	provider := func(c sdk.Change) bool { return c.Kind == "provider" }
	if !in.Body.DryRun && slices.ContainsFunc(result.Changes, provider) {
		s.Hints.ProvidersChanged()
		if err := s.Providers.Read(ctx); err != nil { // who asks next knows it here; the other replicas read it for that
			s.Log.Warn(ctx, "read providers after an apply", slog.Error(err))
		}
	}
	if len(result.Templates) > 0 {
		s.Hints.Nudge(result.Templates...)
		s.Hints.DemandChanged()
	}
	return sdk.ApplyResult{DryRun: in.Body.DryRun, Changes: result.Changes}, nil
}
