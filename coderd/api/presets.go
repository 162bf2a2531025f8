package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// presetInput names a preset in a path.
type presetInput struct {
	Template string `path:"template" doc:"Name of the template"`
	Preset   string `path:"preset" doc:"Name of the preset"`
}

func (s *server) registerPresets() {
	answer(s, operation{
		id: "list-presets", method: http.MethodGet, path: "/presets", action: auth.ActReadPresets, tag: "presets",
		summary: "List presets with their live counts",
	}, s.listPresets)
	answer(s, operation{
		id: "get-preset", method: http.MethodGet, path: "/presets/{template}/{preset}", action: auth.ActReadPresets,
		tag: "presets", summary: "Show a preset with its live counts",
	}, s.getPreset)
	answer(s, operation{
		id: "get-preset-schedule", method: http.MethodGet, path: "/presets/{template}/{preset}/schedule",
		action: auth.ActReadPresets, tag: "presets", summary: "Show the next 7 days of a pool's schedule",
	}, s.getSchedule)
	answer(s, operation{
		id: "explain-preset", method: http.MethodGet, path: "/presets/{template}/{preset}/explain",
		action: auth.ActReadPresets, tag: "presets", summary: "Say why a pool is as it is, and when it will be warm",
	}, s.explainPreset)
	answer(s, operation{
		id: "list-preset-failures", method: http.MethodGet, path: "/presets/{template}/{preset}/failures",
		action: auth.ActReadPresets, tag: "presets", summary: "Show why creates of a preset failed, grouped by cause",
	}, s.listFailures)
	act(s, operation{
		id: "reset-preset", method: http.MethodPost, path: "/presets/{template}/{preset}/reset",
		action: auth.ActResetPreset, tag: "presets",
		summary: "Forget the failures of a preset's creates, so that they begin again",
	}, s.onPreset((*templates.Service).Reset))
	act(s, operation{
		id: "invalidate-preset", method: http.MethodPost, path: "/presets/{template}/{preset}/invalidate",
		action: auth.ActInvalidate, tag: "presets",
		summary: "Replace all unclaimed prebuilds of a preset, as a new version would",
	}, s.onPreset((*templates.Service).Invalidate))
	act(s, operation{
		id: "nudge-preset", method: http.MethodPost, path: "/presets/{template}/{preset}/nudge",
		action: auth.ActNudgePreset, tag: "presets",
		summary:     "Ask for a pass over the preset's template now",
		description: "A nudge carries no state: without it the next tick does the same.",
	}, s.nudgePreset)
}

func (s *server) listPresets(ctx context.Context, who auth.Identity, _ *none) ([]sdk.Preset, error) {
	rows, err := viewsdb.New(s.Store).PresetViews(ctx, viewsdb.PresetViewsParams{OrganizationID: who.OrganizationID})
	if err != nil {
		return nil, xerrors.Errorf("list presets: %w", err)
	}
	presets := make([]sdk.Preset, len(rows))
	for i, row := range rows {
		if presets[i], err = presetOf(row); err != nil {
			return nil, err
		}
	}
	return presets, nil
}

func (s *server) getPreset(ctx context.Context, who auth.Identity, in *presetInput) (sdk.Preset, error) {
	row, err := s.presetView(ctx, who, in)
	if err != nil {
		return sdk.Preset{}, err
	}
	return presetOf(row)
}

func (s *server) nudgePreset(ctx context.Context, who auth.Identity, in *presetInput) error {
	_, templateID, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return err
	}
	s.Hints.Nudge(templateID)
	return nil
}

// findPreset resolves a name to the preset's and its template's id, or says what there is.
func (s *server) findPreset(
	ctx context.Context, who auth.Identity, template, preset string,
) (presetID, templateID uuid.UUID, err error) {
	row, err := viewsdb.New(s.Store).PresetRef(ctx, viewsdb.PresetRefParams{
		OrganizationID: who.OrganizationID, Template: template, Preset: preset,
	})
	if database.NoRows(err) {
		return uuid.Nil, uuid.Nil, s.unknownPreset(ctx, who, template, preset)
	}
	if err != nil {
		return uuid.Nil, uuid.Nil, xerrors.Errorf("find preset: %w", err)
	}
	return row.ID, row.TemplateID, nil
}

// unknownPreset is a refusal that names what there is.
func (s *server) unknownPreset(ctx context.Context, who auth.Identity, template, preset string) error {
	rows, err := viewsdb.New(s.Store).PresetNames(ctx, who.OrganizationID)
	if err != nil {
		return xerrors.Errorf("list presets: %w", err)
	}
	var all, here, named []string
	for _, r := range rows {
		all, named = append(all, r.Template+"/"+r.Preset), append(named, r.Template)
		if r.Template == template {
			here = append(here, r.Preset)
		}
	}
	if len(here) > 0 {
		return auth.Refuse(auth.ErrNotFound, "template %q has no preset %q%s", template, preset,
			templates.Known(preset, here, "preset"))
	}
	if preset == "" { // any of the template, or the one that its parameters choose
		return auth.Refuse(auth.ErrNotFound, "there is no template %q%s", template,
			templates.Known(template, slices.Compact(named), "template"))
	}
	return auth.Refuse(auth.ErrNotFound, "there is no preset %q%s", template+"/"+preset,
		templates.Known(template+"/"+preset, all, "preset"))
}

func presetOf(row viewsdb.PresetViewsRow) (sdk.Preset, error) {
	p := sdk.Preset{
		ID: row.ID, Organization: row.Organization, Template: row.Template, Preset: row.Preset, Version: int(row.Version),
		Provider: row.Provider, Pool: row.Pool, Priority: int(row.Priority), Error: row.Error, PassedAt: row.PassedAt,
		Paused: pausedBy(row.PausedScope, row.PausedReason), PausedScope: row.PausedScope, PausedUntil: row.PausedUntil, Unattainable: row.Unattainable,
		TTL: inSeconds(database.OrZero(row.TtlS)), MinRemaining: inSeconds(row.MinRemainingS), Scheduled: row.Schedule != nil,
		Counts: sdk.Counts{
			Desired: int(row.Desired), Actual: int(row.Actual), Standby: int(row.Standby), Eligible: int(row.Eligible),
			Starting: int(row.Starting),
			Stopping: int(row.Stopping), Deleting: int(row.Deleting), Outdated: int(row.Outdated),
			Extraneous: int(row.Extraneous), Expired: int(row.Expired), Quarantined: int(row.Quarantined),
			Waiting: int(row.Waiting), Claimed: int(row.Claimed), Queued: int(row.Queued),
		},
	}
	if len(row.RunnerLabels) > 0 {
		p.Runner = &sdk.RunnerSettings{
			Forge: row.Forge, Labels: row.RunnerLabels, Group: row.RunnerGroup,
			RegistrationTimeout: inSeconds(row.RunnerRegistrationTimeoutS), Maximum: int(database.OrZero(row.RunnerMaximum)),
		}
	}
	if p.Failures = int(row.Failures); p.Failures > 0 {
		p.Fault = row.LastError
	}
	if err := json.Unmarshal(row.Parameters, &p.Parameters); err != nil {
		return p, xerrors.Errorf("decode parameters of preset: %w", err)
	}
	var ledger prebuilds.Ledger
	if err := json.Unmarshal(row.Ledger, &ledger); err != nil {
		return p, xerrors.Errorf("decode ledger of preset: %w", err)
	}
	p.Reasons, p.Why = reasonsOf(ledger)
	p.Rollout = rolloutOf(ledger)
	return p, nil
}

// reasonsOf are a ledger's reasons as texts, and with their codes.
func reasonsOf(ledger prebuilds.Ledger) (texts []string, why []sdk.Reason) {
	texts, why = []string{}, []sdk.Reason{}
	for _, r := range explain.Reasons(ledger) {
		texts = append(texts, r.Text)
		why = append(why, sdk.Reason{Code: string(r.Code), Text: r.Text})
	}
	return texts, why
}

func rolloutOf(ledger prebuilds.Ledger) *sdk.Rollout {
	r := ledger.Rollout
	if r == nil {
		return nil
	}
	return &sdk.Rollout{
		Phase: string(r.Phase), Ready: r.Ready, Desired: r.Desired, Outdated: r.Outdated, Reason: explain.RolloutReason(r),
		ReasonCode: string(r.Code),
	}
}
