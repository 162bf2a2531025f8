package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/retentiondb"
)

// scaled is the configuration of the world with another size of its pool.
func scaled(instances string) string {
	return strings.Replace(configuration, "instances: 3", "instances: "+instances, 1)
}

// TestPlan: it says what the next pass would do, with a file applied or not, and nothing is changed by that.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, ctx := w.as("admin"), context.Background()
	w.workspace("quickstart", "ready", "prewarm")
	w.workspace("plain", "ready", "prewarm") // no pool: it is surplus
	before := w.dump()

	plan, err := admin.MakePlan(ctx, sdk.PlanRequest{})
	require.NoError(t, err)
	require.Equal(t, sdk.PlanTotals{Create: 2, Drain: 1}, plan.Totals)
	require.Empty(t, plan.Changes)
	require.Len(t, plan.Presets, 2)
	require.Equal(t, "plain", plan.Presets[0].Template)
	require.Equal(t, sdk.PlanTotals{Drain: 1}, plan.Presets[0].PlanTotals)
	require.Equal(t, "quickstart", plan.Presets[1].Template)
	require.Equal(t, sdk.PlanTotals{Create: 2}, plan.Presets[1].PlanTotals)
	require.Equal(t, 3, plan.Presets[1].Desired)

	plan, err = admin.MakePlan(ctx, sdk.PlanRequest{Document: scaled("0"), File: "f.yaml"})
	require.NoError(t, err)
	require.Equal(t, sdk.PlanTotals{Drain: 2}, plan.Totals, "as after the file")
	require.Len(t, plan.Changes, 1)
	require.Equal(t, []string{"instances: 3 -> 0"}, plan.Changes[0].Fields)
	require.Contains(t, plan.Presets[1].Lines, sdk.LedgerLine{
		Label: "drain", Count: 1, Rule: "C6", Reason: "extraneous", ReasonCode: "extraneous",
		Sentence: "are more than wanted, and go: not ready first, then the oldest",
	})

	// A template that is not there yet, at a provider that is not there yet.
	_, err = admin.MakePlan(ctx, sdk.PlanRequest{Document: "providers: [{name: second, kind: bare}]"})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err), "providers are the owner's: %v", err)

	more := configuration + "  - {name: new, provider: second, spec: {}, presets: [{name: p, prebuilds: {instances: 7}}]}\n"
	more = strings.Replace(more, "templates:", "  - {name: second, kind: bare, maximum: 5}\ntemplates:", 1)
	plan, err = w.as("owner").MakePlan(ctx, sdk.PlanRequest{Document: more, File: "f.yaml"})
	require.NoError(t, err)
	require.Equal(t, sdk.PlanTotals{Create: 7, Drain: 1}, plan.Totals)
	require.Equal(t, "new", plan.Presets[0].Template)
	require.Equal(t, 5, plan.Presets[0].Create, "the maximum of the file's own provider holds")
	_, err = admin.Apply(ctx, sdk.ApplyRequest{Plan: plan.ID.String()})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err), "a plan of the owner's makes nobody an owner: %v", err)

	_, err = admin.MakePlan(ctx, sdk.PlanRequest{Document: scaled("-1"), File: "f.yaml"})
	require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))
	require.Equal(t, before, w.dump(), "nothing is changed")
	require.Empty(t, w.nudged)
	_, err = w.as("member").MakePlan(ctx, sdk.PlanRequest{})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
}

// TestApplyPlan: a plan is applied while it holds, and is refused, with what has moved, as soon as it does not.
func TestApplyPlan(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	makePlan := func(t *testing.T, w *world) string {
		t.Helper()
		plan, err := w.as("admin").MakePlan(ctx, sdk.PlanRequest{Document: scaled("5"), File: "f.yaml"})
		require.NoError(t, err)
		require.Equal(t, 5, plan.Totals.Create)
		return plan.ID.String()
	}
	for _, tc := range []struct {
		name string
		move func(t *testing.T, w *world)
		want []string // in the refusal; none: it is applied
	}{
		{"nothing moved", func(*testing.T, *world) {}, nil},
		{"a pool that the file does not touch", func(_ *testing.T, w *world) { w.workspace("plain", "ready", "prewarm") }, nil},
		{
			"a prebuild became ready", func(_ *testing.T, w *world) { w.workspace("quickstart", "ready", "prewarm") },
			[]string{"- quickstart/default was to: desired 5, create 5; now: desired 5, create 4"},
		},
		{
			"somebody applied another size", func(t *testing.T, w *world) {
				_, err := w.as("admin").Apply(ctx, sdk.ApplyRequest{Document: scaled("4")})
				require.NoError(t, err)
			},
			[]string{
				"- no longer a change: update preset quickstart/default: instances: 3 -> 5",
				"- now a change: update preset quickstart/default: instances: 4 -> 5",
			},
		},
		{
			"it is paused", func(t *testing.T, w *world) {
				_, err := w.as("admin").Pause(ctx, sdk.PauseRequest{Scope: "provider", Target: "roomy", Reason: "x"})
				require.NoError(t, err)
			},
			[]string{"now: desired 5, create 0, held back (C10) 5"},
		},
		{
			"the template was deleted", func(t *testing.T, w *world) {
				require.NoError(t, w.as("admin").DeleteTemplate(ctx, "quickstart"))
			},
			[]string{"now a change: create template quickstart"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := makePlan(t, w)
			tc.move(t, w)
			before := w.dump()
			result, err := w.as("admin").Apply(ctx, sdk.ApplyRequest{Plan: id})
			if tc.want == nil {
				require.NoError(t, err)
				require.Len(t, result.Changes, 1)
				again, err := w.as("admin").Preset(ctx, "quickstart", "default")
				require.NoError(t, err)
				require.Equal(t, 5, again.Desired)
				return
			}
			require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "%v", err)
			require.ErrorContains(t, err, "the state has moved since plan "+id)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.Equal(t, before, w.dump(), "nothing is applied")
		})
	}

	t.Run("other refusals", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		admin, id := w.as("admin"), makePlan(t, w)
		bare, err := admin.MakePlan(ctx, sdk.PlanRequest{})
		require.NoError(t, err)
		before := w.dump()
		for _, tc := range []struct {
			req    sdk.ApplyRequest
			status int
			want   string
		}{
			{sdk.ApplyRequest{Plan: id, Document: scaled("6")}, http.StatusConflict, "the file is not the one of plan"},
			{sdk.ApplyRequest{Plan: bare.ID.String()}, http.StatusConflict, "was made without a file: there is nothing to apply"},
			{sdk.ApplyRequest{Plan: "x"}, http.StatusUnprocessableEntity, `plan "x": it must be an id`},
			{sdk.ApplyRequest{Plan: "0f8e2b7c-5d0f-4a57-9a53-6f1f0c1e7d11"}, http.StatusNotFound, "plans are kept for a day"},
		} {
			_, err := admin.Apply(ctx, tc.req)
			require.Equal(t, tc.status, sdk.StatusOf(err), "%v", err)
			require.ErrorContains(t, err, tc.want)
		}
		require.Equal(t, before, w.dump())
		_, err = w.store.Pool.Exec(ctx, "UPDATE plans SET created_at = created_at - interval '2 days', expires_at = now()")
		require.NoError(t, err)
		_, err = admin.Apply(ctx, sdk.ApplyRequest{Plan: id})
		require.Equal(t, http.StatusNotFound, sdk.StatusOf(err), "a plan that is over: %v", err)
		n, err := retentiondb.New(w.store).PurgePlans(ctx, 200)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
	})
}

// TestExplain: one look at a pool that is not warm.
func TestExplain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	member, ctx := w.as("member"), context.Background()
	w.workspace("quickstart", "ready", "prewarm")
	w.workspace("quickstart", "claimed", "member")
	_, err := w.store.Pool.Exec(ctx, "UPDATE workspaces SET created_at = ready_at - interval '40 seconds'")
	require.NoError(t, err)
	w.workspace("quickstart", "provisioning", "prewarm")
	_, err = w.store.Pool.Exec(ctx, "UPDATE workspaces SET ready_at = NULL WHERE state = 'provisioning'")
	require.NoError(t, err)

	e, err := member.ExplainPreset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Equal(t, "Not warm: 1 of 3 prebuilds ready, 1 starting, 1 to be created.", e.Headline)
	require.EqualValues(t, 40_000, e.ProvisionMS)
	require.Equal(t, 2, e.Measured)
	require.NotNil(t, e.WarmAt)
	require.InDelta(t, 40, e.WarmAt.Sub(e.At).Seconds(), 1e-3)
	require.Equal(t, 1, e.Claimed)
	sum := 0
	for _, l := range e.Lines {
		if l.Label == "create" {
			require.Equal(t, 1, sum)
			require.Equal(t, sum, l.Count)
			break
		}
		sum += l.Count
	}

	_, err = w.as("admin").Pause(ctx, sdk.PauseRequest{Scope: "template", Target: "quickstart", Reason: "looking", ExpiresIn: "1h"})
	require.NoError(t, err)
	e, err = member.ExplainPreset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Contains(t, e.Headline, "1 create held back: paused: looking")
	require.Len(t, e.Pauses, 1)
	require.NotNil(t, e.LookAgainAt)
	require.Equal(t, *e.Pauses[0].ExpiresAt, *e.LookAgainAt, "the plan changes when the pause ends")
	e, err = member.ExplainPreset(ctx, "plain", "default")
	require.NoError(t, err)
	require.Equal(t, "Not kept warm: the preset has no prebuilds block.", e.Headline)
	require.Empty(t, e.Pauses)

	_, err = member.ExplainPreset(ctx, "quickstart", "defalt")
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
	require.ErrorContains(t, err, `did you mean "default"`)
}
