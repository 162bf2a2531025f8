package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// basis is what a plan depends on: the changes to the configuration, each with what it was before, and what was planned for
// each pool that they touch. An apply of the plan is refused if any of it is different by then. Pools that the file does
// not touch may do as they like.
type basis struct {
	Changes []string            `json:"changes"`
	Pools   map[string][]string `json:"pools"`

	templates, providers map[string]bool // that the changes touch
}

func basisOf(changes []sdk.Change) basis {
	b := basis{
		Changes: []string{}, Pools: map[string][]string{}, templates: map[string]bool{}, providers: map[string]bool{},
	}
	for _, c := range changes {
		b.Changes = append(b.Changes, strings.TrimSuffix(
			fmt.Sprintf("%s %s %s: %s", c.Action, c.Kind, c.Name, strings.Join(c.Fields, ", ")), ": "))
		if c.Kind == "provider" {
			b.providers[c.Name] = true
			continue
		}
		template, _, _ := strings.Cut(c.Name, "/")
		b.templates[template] = true
	}
	slices.Sort(b.Changes)
	return b
}

// note takes in what is planned for a pool, if the changes touch it.
func (b *basis) note(p reconcile.Previewed) {
	if !b.templates[p.Preset.Template] && !b.providers[p.Preset.Provider] {
		return
	}
	name := p.Preset.Template + "/" + p.Preset.Name
	if p.Err != nil {
		b.Pools[name] = []string{"error: " + p.Err.Error()}
		return
	}
	said := []string{fmt.Sprintf("desired %d", p.Plan.Counts.Desired), fmt.Sprintf("create %d", p.Plan.Create)}
	counts := map[string]int{}
	for _, i := range p.Plan.Intents {
		counts[fmt.Sprintf("%s (%s)", i.Kind, i.Rule)]++
	}
	for _, m := range p.Plan.Moves {
		counts[string(m.Kind)]++
	}
	for _, l := range p.Plan.Ledger.Creates {
		if l.Label == prebuilds.LabelHeldBack {
			counts[fmt.Sprintf("held back (%s)", l.Rule)] -= l.Count
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		said = append(said, fmt.Sprintf("%s %d", what, counts[what]))
	}
	b.Pools[name] = said
}

// moved says what is different in now, in the words of the plan; empty where nothing is.
func (b basis) moved(now basis) []string {
	var moved []string
	for _, c := range b.Changes {
		if !slices.Contains(now.Changes, c) {
			moved = append(moved, "no longer a change: "+c)
		}
	}
	for _, c := range now.Changes {
		if !slices.Contains(b.Changes, c) {
			moved = append(moved, "now a change: "+c)
		}
	}
	either := maps.Clone(b.Pools)
	maps.Copy(either, now.Pools)
	for _, name := range slices.Sorted(maps.Keys(either)) {
		before, after := strings.Join(b.Pools[name], ", "), strings.Join(now.Pools[name], ", ")
		if before != after {
			moved = append(moved, fmt.Sprintf("%s was to: %s; now: %s", name, orNothing(before), orNothing(after)))
		}
	}
	return moved
}

func orNothing(s string) string { return cmp.Or(s, "nothing") }

// asPlanned turns an apply into that of a plan: of its file where none was sent, and refused where what it depends on has
// moved.
func (s *server) asPlanned(ctx context.Context, who auth.Identity, planID string, req *templates.Request) error {
	id, err := uuid.Parse(planID)
	if err != nil {
		return auth.Refuse(auth.ErrInvalid, "plan %q: it must be an id as `prewarm plan` prints it", planID)
	}
	row, err := apidb.New(s.Store).PlanOf(ctx, apidb.PlanOfParams{ID: id, OrganizationID: who.OrganizationID})
	if database.NoRows(err) {
		return auth.Refuse(auth.ErrNotFound, "there is no plan %s: plans are kept for a day; make another", id)
	}
	if err != nil {
		return xerrors.Errorf("read plan: %w", err)
	}
	switch {
	case row.Document == nil:
		return auth.Refuse(auth.ErrConflict, "plan %s was made without a file: there is nothing to apply", id)
	case req.Source == "":
		req.File, req.Source = row.File, *row.Document
	case req.Source != *row.Document:
		return auth.Refuse(auth.ErrConflict, "nothing was applied: the file is not the one of plan %s; make another plan", id)
	}
	var planned basis
	if err := json.Unmarshal(row.Basis, &planned); err != nil {
		return xerrors.Errorf("decode basis of plan: %w", err)
	}
	req.Inspect = func(ctx context.Context, db database.DBTX, changes []sdk.Change) error {
		_, now, err := s.preview(ctx, db, who, changes)
		if err != nil {
			return err
		}
		if moved := planned.moved(now); len(moved) > 0 {
			return auth.Refuse(auth.ErrConflict, "nothing was applied: the state has moved since plan %s was made\n- %s\nmake another plan",
				id, strings.Join(moved, "\n- "))
		}
		return nil
	}
	return nil
}

func sortPlans(plans []sdk.PresetPlan) {
	slices.SortFunc(plans, func(a, b sdk.PresetPlan) int {
		return cmp.Or(cmp.Compare(a.Template, b.Template), cmp.Compare(a.Preset, b.Preset))
	})
}

// pausesOf are those that hold for a preset.
func pausesOf(rows []viewsdb.PausesRow, p prebuilds.Preset) []sdk.Pause {
	pauses := []sdk.Pause{}
	for _, r := range rows {
		target := map[database.PauseScope]string{
			database.PauseScopeProvider: p.Provider, database.PauseScopeTemplate: p.Template,
			database.PauseScopePreset: p.Template + "/" + p.Name,
		}[r.Scope]
		if r.Target == target {
			pauses = append(pauses, pauseOf(r))
		}
	}
	return pauses
}
