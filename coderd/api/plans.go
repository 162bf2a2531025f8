package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Previewer says what a pass would do; *reconcile.Reconciler is one.
type Previewer interface {
	Preview(ctx context.Context, db database.DBTX, templates []uuid.UUID) (reconcile.Preview, error)
}

// plansAreKept is how long a plan may be applied.
const plansAreKept = 24 * time.Hour

func (s *server) registerPlans() {
	answer(s, operation{
		id: "create-plan", method: http.MethodPost, path: "/plans", action: auth.ActPlan, tag: "templates",
		summary: "Say what the next pass would do, with a file applied or not",
		description: "Nothing is changed. The plan's id lets the file be applied only if nothing that the plan depends on has " +
			"moved.",
	}, s.createPlan)
}

func (s *server) createPlan(ctx context.Context, who auth.Identity, in *body[sdk.PlanRequest]) (sdk.Plan, error) {
	var plan sdk.Plan
	var based basis
	document, file := in.Body.Document, in.Body.File
	if r := in.Body.Resize; r != nil {
		if document != "" {
			return sdk.Plan{}, auth.Refuse(auth.ErrInvalid, "a plan is of a document or of a resize: leave one of them out")
		}
		var err error
		if document, err = s.Templates.Resized(ctx, who, r.Template, r.Preset, r.Instances); err != nil {
			return sdk.Plan{}, err
		}
		file = fmt.Sprintf("resize of %s/%s to %d", r.Template, r.Preset, r.Instances)
	}
	look := func(ctx context.Context, db database.DBTX, changes []sdk.Change) error {
		if r := in.Body.Resize; r != nil && !only(changes, r.Template+"/"+r.Preset) {
			return auth.Refuse(auth.ErrConflict, "template %s was changed at that moment: try again", r.Template)
		}
		var err error
		plan, based, err = s.preview(ctx, db, who, changes)
		return err
	}
	params := apidb.InsertPlanParams{
		ID: uuid.New(), OrganizationID: who.OrganizationID, CreatedBy: who.UserID, KeepS: plansAreKept.Seconds(),
		File: file,
	}
	if document == "" {
		opts := database.TxOptions{Label: "plan", Isolation: pgx.RepeatableRead, ReadOnly: true}
		err := s.Store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
			return look(ctx, tx, []sdk.Change{})
		})
		if err != nil {
			return sdk.Plan{}, err
		}
	} else {
		params.Document = &document
		_, err := s.Templates.Apply(ctx, templates.Request{
			By: who, File: file, Source: document, DryRun: true, Inspect: look,
		})
		if err != nil {
			return sdk.Plan{}, err
		}
	}
	var err error
	if params.Basis, err = json.Marshal(based); err != nil {
		return sdk.Plan{}, xerrors.Errorf("encode basis of plan: %w", err)
	}
	kept, err := apidb.New(s.Store).InsertPlan(ctx, params)
	if err != nil {
		return sdk.Plan{}, xerrors.Errorf("keep plan: %w", err)
	}
	plan.ID, plan.ExpiresAt = params.ID, kept.ExpiresAt
	return plan, nil
}

// only says whether nothing is changed but the instances of one preset, if that.
func only(changes []sdk.Change, preset string) bool {
	return !slices.ContainsFunc(changes, func(c sdk.Change) bool {
		return c.Kind != "preset" || c.Action != "update" || c.Name != preset || len(c.Fields) != 1 ||
			!strings.HasPrefix(c.Fields[0], "instances: ")
	})
}

// preview is what the next pass would do for the presets of an organization in the state that q sees, and what of it an
// apply of these changes depends on.
func (s *server) preview(
	ctx context.Context, db database.DBTX, who auth.Identity, changes []sdk.Change,
) (sdk.Plan, basis, error) {
	ids, err := viewsdb.New(db).PresetsOfOrganization(ctx, who.OrganizationID)
	if err != nil {
		return sdk.Plan{}, basis{}, xerrors.Errorf("list presets: %w", err)
	}
	ours := lists.Keyed(ids, func(id uuid.UUID) (uuid.UUID, bool) { return id, true })
	preview, err := s.Passes.Preview(ctx, db, nil)
	if err != nil {
		return sdk.Plan{}, basis{}, err
	}
	plan := sdk.Plan{At: preview.Now, Changes: changes, Presets: []sdk.PresetPlan{}}
	based := basisOf(changes)
	for _, p := range preview.Presets {
		if !ours[p.Preset.ID] {
			continue
		}
		shown := presetPlanOf(p, preview.Now)
		plan.Presets = append(plan.Presets, shown)
		plan.Totals.Create += shown.Create
		plan.Totals.Cancel += shown.Cancel
		plan.Totals.Drain += shown.Drain
		plan.Totals.Stop += shown.Stop
		plan.Totals.Start += shown.Start
		based.note(p)
	}
	sortPlans(plan.Presets)
	return plan, based, nil
}

func presetPlanOf(p reconcile.Previewed, now time.Time) sdk.PresetPlan {
	out := sdk.PresetPlan{Template: p.Preset.Template, Preset: p.Preset.Name, Lines: []sdk.LedgerLine{}}
	if p.Err != nil {
		out.Error = p.Err.Error()
		return out
	}
	c := p.Plan.Counts
	out.Desired, out.Actual, out.Starting = c.Desired, c.Actual, c.Starting
	out.Create = p.Plan.Create
	for _, i := range p.Plan.Intents {
		if i.Kind == prebuilds.Cancel {
			out.Cancel++
		} else {
			out.Drain++
		}
	}
	for _, m := range p.Plan.Moves {
		if m.Kind == prebuilds.Stop {
			out.Stop++
		} else {
			out.Start++
		}
	}
	out.Lines = linesOf(explain.Explain(p.Workspaces, p.Plan, now, 0).Lines)
	for i := range out.Lines { // a plan says what would be done; when it has its effect is `explain`'s
		out.Lines[i].Expected, out.Lines[i].ExpectedAt = "", nil
	}
	return out
}

func linesOf(explained []explain.Explained) []sdk.LedgerLine {
	return lists.Of(explained, func(l explain.Explained) sdk.LedgerLine {
		return sdk.LedgerLine{
			Label: l.Label, Count: l.Count, Rule: l.Rule, Reason: l.Text, ReasonCode: string(l.Code), Sentence: l.Sentence, Expected: l.Expected,
			ExpectedAt: timeOrNil(l.ExpectedAt),
		}
	})
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
