package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/autosize"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Sizes looks at the past of a preset; *autosize.Service does.
type Sizes interface {
	Advise(ctx context.Context, preset uuid.UUID, days int, target float64) (autosize.Advice, error)
	Replay(ctx context.Context, preset uuid.UUID, days, instances int, miss sizing.Miss) (autosize.Replays, error)
}

type sizeInput struct {
	Template string  `path:"template" doc:"Name of the template"`
	Preset   string  `path:"preset" doc:"Name of the preset"`
	Days     int     `query:"days" minimum:"1" maximum:"30" default:"14" doc:"How far to look back"`
	Target   float64 `query:"target" minimum:"0" exclusiveMaximum:"1" doc:"Hit rate aimed at; the preset's own, or 0.99, where it is left out"`
}

type replayInput struct {
	Template  string `path:"template" doc:"Name of the template"`
	Preset    string `path:"preset" doc:"Name of the preset"`
	Days      int    `query:"days" minimum:"1" maximum:"30" default:"14" doc:"How far to look back"`
	Instances int    `query:"instances" minimum:"-1" maximum:"10000" default:"-1" doc:"How many to try; the preset's own where it is -1"`
	Cold      bool   `query:"cold" doc:"A claim that misses goes elsewhere, instead of waiting"`
}

func (s *server) registerSizing() {
	answer(s, operation{
		id: "size-preset", method: http.MethodGet, path: "/presets/{template}/{preset}/size",
		action: auth.ActReadPresets, tag: "presets", summary: "Recommend a size for a preset by its claims",
	}, s.sizePreset)
	answer(s, operation{
		id: "replay-preset", method: http.MethodGet, path: "/presets/{template}/{preset}/replay",
		action: auth.ActReadPresets, tag: "presets", summary: "Show what another size would have done to a preset",
	}, s.replayPreset)
}

func (s *server) sizePreset(ctx context.Context, who auth.Identity, in *sizeInput) (sdk.PresetSize, error) {
	id, _, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return sdk.PresetSize{}, err
	}
	a, err := s.Sizes.Advise(ctx, id, in.Days, in.Target)
	if err != nil {
		return sdk.PresetSize{}, err //nolint:wrapcheck // it says what it was
	}
	out := sdk.PresetSize{
		PresetPast: pastOf(in.Template, in.Preset, a.View, a.Past), Target: a.Target, Busiest: a.Busiest, ModelWaits: a.Waits,
		ModelCold: a.Cold, Recommended: a.Size, Why: a.By,
		Outcomes: []sdk.SizeOutcome{
			outcomeOf(strconv.Itoa(a.Size), a.Replayed, a.Past.IdleCost), outcomeOf("autosize", a.Autosized, a.Past.IdleCost),
		},
	}
	if c := a.Config; c != nil {
		out.Autosize = &sdk.Autosize{
			Mode: string(c.Mode), Min: c.Min, Max: c.Max, Target: c.Target, Timezone: c.Timezone,
			Forecast: int(a.View.Forecast), Recent: int(a.View.Recent), Boost: a.View.Boost, Reason: a.View.Reason,
			Unattainable: a.View.Unattainable, ComputedAt: a.View.ComputedAt,
		}
		if a.View.Size >= 0 {
			size := int(a.View.Size)
			out.Autosize.Size = &size
		}
		if out.Autosize.Attained, err = attained(ctx, viewsdb.New(s.Store), id, a.Past.Provision); err != nil {
			return sdk.PresetSize{}, err
		}
	}
	return out, nil
}

func (s *server) replayPreset(ctx context.Context, who auth.Identity, in *replayInput) (sdk.PresetReplay, error) {
	id, _, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return sdk.PresetReplay{}, err
	}
	miss := sizing.MissWaits
	if in.Cold {
		miss = sizing.MissCold
	}
	r, err := s.Sizes.Replay(ctx, id, in.Days, in.Instances, miss)
	if err != nil {
		return sdk.PresetReplay{}, err //nolint:wrapcheck // it says what it was
	}
	return sdk.PresetReplay{
		PresetPast: pastOf(in.Template, in.Preset, r.View, r.Past),
		Outcomes: []sdk.SizeOutcome{
			outcomeOf(strconv.Itoa(r.Instances), r.Static, r.Past.IdleCost), outcomeOf("autosize", r.Autosized, r.Past.IdleCost),
		},
	}, nil
}

func pastOf(template, preset string, view viewsdb.SizingViewRow, p autosize.Past) sdk.PresetPast {
	return sdk.PresetPast{
		Template: template, Preset: preset, Instances: int(view.Instances), From: p.From, To: p.To,
		Claims: len(p.Claims), Hits: p.Hits, ProvisionSeconds: p.Provision.Seconds(), IdleCostPerHour: p.IdleCost, Cut: p.Cut,
	}
}

func outcomeOf(size string, r sizing.Replay, costPerHour float64) sdk.SizeOutcome {
	o := sdk.SizeOutcome{
		Size: size, Hits: r.Hits, HitRate: r.HitRate(), IdleHours: r.Idle.Hours(), MeanIdle: r.MeanIdle(), Peak: r.Peak,
		IdleCost: r.Idle.Hours() * costPerHour,
	}
	o.CostPerClaim = sizing.CostPerClaim(o.IdleCost, r.Claims)
	return o
}
