package api

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// explainPreset decides as a nudge's pass over the template would at this instant, and says why.
func (s *server) explainPreset(ctx context.Context, who auth.Identity, in *presetInput) (sdk.Explanation, error) {
	view, err := s.presetView(ctx, who, in)
	if err != nil {
		return sdk.Explanation{}, err
	}
	var preview reconcile.Preview
	var took viewsdb.ProvisionTimeRow
	var pauses []viewsdb.PausesRow
	var hits []sdk.Attained
	opts := database.TxOptions{Label: "explain preset", Isolation: pgx.RepeatableRead, ReadOnly: true}
	err = s.Store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		q := viewsdb.New(tx)
		var err error
		if preview, err = s.Passes.Preview(ctx, tx, []uuid.UUID{view.TemplateID}); err != nil {
			return err
		}
		if took, err = q.ProvisionTime(ctx, view.ID); err != nil {
			return xerrors.Errorf("read times of creates: %w", err)
		}
		if pauses, err = q.Pauses(ctx, who.OrganizationID); err != nil {
			return xerrors.Errorf("list pauses: %w", err)
		}
		hits, err = attained(ctx, q, view.ID, time.Duration(took.MedianS*float64(time.Second)))
		return err
	})
	if err != nil {
		return sdk.Explanation{}, err
	}
	at := slices.IndexFunc(preview.Presets, func(p reconcile.Previewed) bool { return p.Preset.ID == view.ID })
	if at < 0 { // deleted at this moment
		return sdk.Explanation{}, s.unknownPreset(ctx, who, in.Template, in.Preset)
	}
	p := preview.Presets[at]
	out := sdk.Explanation{
		Template: view.Template, Preset: view.Preset, At: preview.Now, Lines: []sdk.LedgerLine{},
		Pauses: pausesOf(pauses, p.Preset), Measured: int(took.Measured),
		Unattainable: view.Unattainable, Attained: hits,
	}
	if p.Err != nil {
		out.Error, out.Headline = p.Err.Error(), "Not decided: "+p.Err.Error()+"."
		return out, nil //nolint:nilerr // the answer says so
	}
	provision := time.Duration(took.MedianS * float64(time.Second)).Round(time.Millisecond)
	e := explain.Explain(p.Workspaces, p.Plan, preview.Now, provision)
	out.Headline, out.WarmAt, out.Lines = e.Headline, timeOrNil(e.WarmAt), linesOf(e.Lines)
	out.ProvisionMS, out.LookAgainAt = provision.Milliseconds(), timeOrNil(p.Plan.RetryAt)
	if !view.Pool && p.Plan.Counts.Waiting == 0 {
		out.Headline = "Not kept warm: the preset has no prebuilds block."
	}
	c := p.Plan.Counts
	out.Counts = sdk.Counts{
		Desired: c.Desired, Actual: c.Actual, Eligible: c.Eligible, Starting: c.Starting, Stopping: c.Stopping,
		Deleting: c.Deleting, Outdated: c.Outdated, Extraneous: c.Extraneous, Expired: c.Expired,
		Standby: c.Standby, Quarantined: c.Quarantined, Waiting: c.Waiting, Claimed: int(view.Claimed), Queued: c.Queued,
	}
	if shown, err := presetOf(view); err == nil {
		out.Runner = shown.Runner
	}
	return out, nil
}
