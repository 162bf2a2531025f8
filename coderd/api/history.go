package api

import (
	"context"
	"math"
	"net/http"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// mostHours of history are told: as long as samples are kept (coderd/retention).
	mostHours = "336"
	// mostPoints are in an answer, and one more for the step that lasts still.
	mostPoints = 336
	// sampleHolds is how long a sample may stand for: one is written every hour, if nothing changes, and may be late.
	sampleHolds = time.Hour + 2*sizing.BucketLength
	// mostMeasured workspaces of a kind are looked at for how long states last.
	mostMeasured = 200
)

// steps that a history may be told in, in buckets: the first that has few enough points is taken.
var steps = []int{1, 2, 3, 6, 12}

type historyInput struct {
	Template string `path:"template" doc:"Name of the template"`
	Preset   string `path:"preset" doc:"Name of the preset"`
	Hours    int    `query:"hours" minimum:"1" maximum:"336" default:"24" doc:"How far to look back"`
}

func (s *server) registerHistory() {
	answer(s, operation{
		id: "get-preset-history", method: http.MethodGet, path: "/presets/{template}/{preset}/history",
		action: auth.ActReadPresets, tag: "presets", summary: "Show what a pool looked like over time",
		description: "In at most " + mostHours + " steps and the one that lasts still, whatever the range. Counts are sampled every " +
			"five minutes and kept for 14 days; claims and provision times are counted each minute.",
	}, s.getHistory)
	answer(s, operation{
		id: "get-preset-durations", method: http.MethodGet, path: "/presets/{template}/{preset}/durations",
		action: auth.ActReadPresets, tag: "presets", summary: "Show how long workspaces of a preset usually are in each state",
		description: "By the latest 200 of those that are there unclaimed, of those claimed, and of those deleted.",
	}, s.getDurations)
}

func (s *server) getHistory(ctx context.Context, who auth.Identity, in *historyInput) (sdk.PresetHistory, error) {
	view, err := s.presetView(ctx, who, &presetInput{Template: in.Template, Preset: in.Preset})
	if err != nil {
		return sdk.PresetHistory{}, err
	}
	h := newHistory(view.Now, in.Hours)
	samples, err := viewsdb.New(s.Store).PresetSamples(ctx, viewsdb.PresetSamplesParams{
		PresetID: view.ID, Since: h.from.Add(-sampleHolds),
	})
	if err != nil {
		return sdk.PresetHistory{}, xerrors.Errorf("read samples: %w", err)
	}
	claims, err := viewsdb.New(s.Store).ClaimHistory(ctx, viewsdb.ClaimHistoryParams{PresetID: view.ID, Since: h.from})
	if err != nil {
		return sdk.PresetHistory{}, xerrors.Errorf("read history: %w", err)
	}
	h.sampled(samples)
	h.see(len(h.points)-1, sizes{view.Desired, view.Actual, view.Starting, view.Claimed})
	h.counted(claims)
	return sdk.PresetHistory{
		Template: view.Template, Preset: view.Preset, From: h.from, To: view.Now, StepSeconds: int(h.step.Seconds()),
		Points: h.points,
	}, nil
}

func (s *server) getDurations(ctx context.Context, who auth.Identity, in *presetInput) (sdk.PresetDurations, error) {
	id, templateID, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return sdk.PresetDurations{}, err
	}
	rows, err := viewsdb.New(s.Store).StateDurations(ctx, viewsdb.StateDurationsParams{
		TemplateID: templateID, PresetID: id, Most: mostMeasured,
	})
	if err != nil {
		return sdk.PresetDurations{}, xerrors.Errorf("read durations: %w", err)
	}
	out := sdk.PresetDurations{Template: in.Template, Preset: in.Preset, States: make([]sdk.StateDuration, len(rows))}
	for i, r := range rows {
		out.States[i] = sdk.StateDuration{
			State: string(r.State), P50MS: milliseconds(r.P50S), P95MS: milliseconds(r.P95S), Measured: int(r.Measured),
		}
	}
	return out, nil
}

func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

// history is a range cut into steps.
type history struct {
	from, now time.Time
	step      time.Duration
	points    []sdk.HistoryPoint
}

// sizes of a pool at one time.
type sizes struct{ desired, ready, starting, claimed int32 }

func newHistory(now time.Time, hours int) *history {
	long := time.Duration(hours) * time.Hour
	h := &history{now: now}
	for _, n := range steps {
		h.step = time.Duration(n) * sizing.BucketLength
		if long/h.step <= mostPoints {
			break
		}
	}
	h.from = now.UTC().Truncate(h.step).Add(-long)
	h.points = make([]sdk.HistoryPoint, long/h.step+1)
	for i := range h.points {
		h.points[i].At = h.from.Add(time.Duration(i) * h.step)
	}
	return h
}

// at is the step that an instant is in; below 0 where it was before all of them, never beyond the last.
func (h *history) at(t time.Time) int {
	if t.Before(h.from) {
		return -1
	}
	return min(int(t.Sub(h.from)/h.step), len(h.points)-1)
}

// see takes in what was so at some time in a step. A pool that was empty for five minutes of an hour is to be seen as such.
func (h *history) see(i int, s sizes) {
	p := &h.points[i]
	highest := func(to **int, n int32) {
		if v := int(n); *to == nil || v > **to {
			*to = &v
		}
	}
	highest(&p.Desired, s.desired)
	highest(&p.Starting, s.starting)
	highest(&p.Claimed, s.claimed)
	if v := int(s.ready); p.Ready == nil || v < *p.Ready {
		p.Ready = &v
	}
}

// sampled takes in samples, each of which holds until the next one, in order.
func (h *history) sampled(rows []viewsdb.PresetSamplesRow) {
	for i, r := range rows {
		end := r.Bucket.Add(sampleHolds)
		if i+1 < len(rows) && rows[i+1].Bucket.Before(end) {
			end = rows[i+1].Bucket
		}
		if end.After(h.now) {
			end = h.now
		}
		first, last := max(h.at(r.Bucket), 0), h.at(end.Add(-time.Nanosecond))
		for at := first; at <= last; at++ {
			h.see(at, sizes{r.Desired, r.Ready, r.Starting, r.Claimed})
		}
	}
}

// counted takes in claims, and what became ready.
func (h *history) counted(rows []viewsdb.ClaimHistoryRow) {
	took := make([]float64, len(h.points))
	for _, r := range rows {
		i := h.at(r.Bucket)
		if i < 0 {
			continue
		}
		p := &h.points[i]
		p.Claims += int(r.Requests)
		p.Hits += int(r.RequestHits)
		p.Provisions += int(r.Provisions)
		took[i] += r.ProvisionS
	}
	for i := range h.points {
		if p := &h.points[i]; p.Provisions > 0 {
			p.ProvisionMS = milliseconds(took[i] / float64(p.Provisions))
		}
	}
}
