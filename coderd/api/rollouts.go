package api

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// mostCauses that are shown. There are rarely more than a few.
const mostCauses = 100

type rollbackInput struct {
	Name string `path:"template" doc:"Name of the template"`
	Body sdk.RollbackRequest
}

type presetReasonInput struct {
	Template string `path:"template" doc:"Name of the template"`
	Preset   string `path:"preset" doc:"Name of the preset"`
	Body     sdk.ReasonRequest
}

func (s *server) rollbackTemplate(ctx context.Context, who auth.Identity, in *rollbackInput) (sdk.RollbackResult, error) {
	done, err := s.Templates.Rollback(ctx, who, in.Name, int32(in.Body.Version), in.Body.Reason)
	if err != nil {
		return sdk.RollbackResult{}, err
	}
	s.Hints.Nudge(done.TemplateID)
	s.Hints.DemandChanged()
	return sdk.RollbackResult{Template: in.Name, From: int(done.From), To: int(done.To)}, nil
}

// onPreset is the handler of reset and invalidate, which differ only in what they call.
func (s *server) onPreset(
	do func(_ *templates.Service, _ context.Context, by auth.Identity, template, preset, reason string) (uuid.UUID, error),
) func(context.Context, auth.Identity, *presetReasonInput) error {
	return func(ctx context.Context, who auth.Identity, in *presetReasonInput) error {
		id, err := do(s.Templates, ctx, who, in.Template, in.Preset, in.Body.Reason)
		if err == nil {
			s.Hints.Nudge(id)
		}
		return err
	}
}

func (s *server) listFailures(ctx context.Context, who auth.Identity, in *presetInput) (sdk.Failures, error) {
	id, _, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return sdk.Failures{}, err
	}
	failures := sdk.Failures{Template: in.Template, Preset: in.Preset, Causes: []sdk.Cause{}}
	streak, err := viewsdb.New(s.Store).FailureStreak(ctx, id)
	switch {
	case err == nil:
		failures.Streak, failures.Permanent, failures.Since = int(streak.Streak), int(streak.Permanent), &streak.FirstAt
	case !database.NoRows(err):
		return sdk.Failures{}, xerrors.Errorf("read failures: %w", err)
	}
	rows, err := viewsdb.New(s.Store).FailureCauses(ctx, viewsdb.FailureCausesParams{PresetID: id, Most: mostCauses})
	if err != nil {
		return sdk.Failures{}, xerrors.Errorf("list causes of failures: %w", err)
	}
	for _, r := range rows {
		failures.Causes = append(failures.Causes, sdk.Cause{
			Cause: r.Cause, Count: r.Count, Permanent: r.Permanent, FirstAt: r.FirstAt, LastAt: r.LastAt, Fault: r.LastFault,
			Message: printable.Headline(r.LastFault), Workspace: r.LastWorkspace, Version: int(r.LastVersion),
		})
	}
	return failures, nil
}
