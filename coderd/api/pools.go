package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// hoursShown of claims, of each pool.
	hoursShown = 24
	// changeShown is how far ahead the next change of a schedule is looked for.
	changeShown = 24 * time.Hour
	// Bounds of what is told of one pool: its page tells all.
	reasonsShown = 3
	textShown    = 300 // characters
)

type listPoolsInput struct {
	IDs   []string `query:"ids" maxItems:"100" doc:"Of presets: only these"`
	Limit int32    `query:"limit" minimum:"1" maximum:"500" default:"200"`
	After string   `query:"after" maxLength:"200" doc:"What the page before gave as next"`
}

func (s *server) registerPools() {
	answer(s, operation{
		id: "list-pools", method: http.MethodGet, path: "/pools", action: auth.ActReadPresets, tag: "presets",
		summary: "List presets by their names, each in one line: its slots, its hits, and what is wrong with it",
	}, s.listPools)
}

func (s *server) listPools(ctx context.Context, who auth.Identity, in *listPoolsInput) (sdk.PoolList, error) {
	params := viewsdb.PoolViewsParams{OrganizationID: who.OrganizationID, MaxPools: in.Limit + 1}
	for _, text := range in.IDs {
		id, err := uuid.Parse(text)
		if err != nil {
			return sdk.PoolList{}, auth.Refuse(auth.ErrInvalid, "ids: %q is no id", text)
		}
		params.Ids = append(params.Ids, id)
	}
	if in.After != "" {
		var found bool
		if params.AfterTemplate, params.AfterPreset, found = strings.Cut(in.After, "/"); !found {
			return sdk.PoolList{}, auth.Refuse(auth.ErrInvalid, "after: not what a page gave as next")
		}
	}
	rows, err := viewsdb.New(s.Store).PoolViews(ctx, params)
	if err != nil {
		return sdk.PoolList{}, xerrors.Errorf("list pools: %w", err)
	}
	rows, more := firstOf(rows, in.Limit)
	ids := lists.Of(rows, func(row viewsdb.PoolViewsRow) uuid.UUID { return row.ID })
	hours, err := viewsdb.New(s.Store).PoolHours(ctx, ids)
	if err != nil {
		return sdk.PoolList{}, xerrors.Errorf("read claims of pools: %w", err)
	}
	claims := map[uuid.UUID][]viewsdb.PoolHoursRow{}
	for _, h := range hours {
		claims[h.PresetID] = append(claims[h.PresetID], h)
	}
	pools := make([]sdk.Pool, len(rows))
	for i, row := range rows {
		if pools[i], err = poolOf(row, claims[row.ID]); err != nil {
			return sdk.PoolList{}, err
		}
	}
	var list sdk.PoolList
	list.Pools, list.Next, err = fitting(pools, more, func(p sdk.Pool) string { return p.Template + "/" + p.Preset })
	return list, err
}

func poolOf(row viewsdb.PoolViewsRow, hours []viewsdb.PoolHoursRow) (sdk.Pool, error) {
	p := sdk.Pool{
		ID: row.ID, Template: row.Template, Preset: row.Preset, Version: int(row.Version), Provider: row.Provider,
		Pool: row.Pool, Runners: row.Runners, PausedScope: row.PausedScope,
		Desired: int(row.Desired), Waiting: int(row.Waiting), Hours: []int{}, Reasons: []string{}, Why: []sdk.Reason{},
		Paused: short(pausedBy(row.PausedScope, row.PausedReason)), Failures: int(row.Failures), Error: short(row.Error),
		Slots: sdk.Slots{
			Ready: int(row.Actual), Outdated: int(row.Outdated), Starting: int(row.Starting), Leaving: int(row.Leaving),
			Failed: int(row.Quarantined), Claimed: int(row.Claimed),
		},
	}
	if p.Failures > 0 {
		p.Fault = short(row.LastError)
	}
	if len(hours) > 0 {
		p.Hours = make([]int, 2*hoursShown)
	}
	for _, h := range hours {
		// A bucket may begin in the future of a clock that was set back, and one of the 24th hour in the 25th.
		at := 2 * (hoursShown - 1 - min(max(int(h.HoursAgo), 0), hoursShown-1))
		p.Hours[at] += int(h.Claims)
		p.Hours[at+1] += int(h.Hits)
		p.Claims += int(h.Claims)
		p.Hits += int(h.Hits)
	}
	if row.IdleCostPerHour > 0 || row.StoppedCostPerHour > 0 {
		running := float64(row.Actual + row.Outdated - row.Stopped)
		day := hoursShown * (running*row.IdleCostPerHour + float64(row.Stopped)*row.StoppedCostPerHour)
		p.Cost = &sdk.PoolCost{PerDay: day, PerClaim: sizing.CostPerClaim(day, p.Claims)}
	}
	if row.Schedule != nil {
		schedule, err := prebuilds.DecodeSchedule(row.Schedule)
		if err != nil {
			return p, err
		}
		windows := schedule.Windows(int(row.Instances), row.Now, row.Now.Add(changeShown))
		for _, w := range windows[min(1, len(windows)):] {
			if w.Instances != windows[0].Instances {
				p.NextChange = &sdk.PoolChange{At: w.From, Instances: w.Instances}
				break
			}
		}
	}
	var ledger prebuilds.Ledger
	if err := json.Unmarshal(row.Ledger, &ledger); err != nil {
		return p, xerrors.Errorf("decode ledger of preset: %w", err)
	}
	texts, why := reasonsOf(ledger)
	for i := range min(reasonsShown, len(texts)) {
		p.Reasons = append(p.Reasons, short(texts[i]))
		p.Why = append(p.Why, sdk.Reason{Code: why[i].Code, Text: short(texts[i])})
	}
	if p.Rollout = rolloutOf(ledger); p.Rollout != nil {
		p.Rollout.Reason = short(p.Rollout.Reason)
	}
	if a := explain.Attend(attentionOf(row, ledger)); a.Text != "" {
		p.Attention = &sdk.Attention{Code: string(a.Code), Bad: a.Bad, Text: short(a.Text)}
	}
	return p, nil
}

// attentionOf is what there is to say that a pool needs somebody.
func attentionOf(row viewsdb.PoolViewsRow, ledger prebuilds.Ledger) explain.Pool {
	return explain.Pool{
		Error: row.Error, Ledger: ledger, Failures: int(row.Failures), Fault: row.LastError, Paused: row.PausedReason,
		Waiting: int(row.Waiting), Desired: int(row.Desired), Ready: int(row.Actual), Outdated: int(row.Outdated),
		Starting: int(row.Starting), Failed: int(row.Quarantined),
	}
}

// pausedBy is the scope and the reason of a pause; empty without one.
func pausedBy(scope, reason string) string {
	if scope == "" {
		return ""
	}
	return scope + ": " + reason
}

// short cuts a text where it gets long.
func short(s string) string {
	if runes := []rune(s); len(runes) > textShown {
		return string(runes[:textShown-1]) + "…"
	}
	return s
}
