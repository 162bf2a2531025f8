package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// The versions of a template page by page without their specs, each with the workspaces there are of it, and one with its
// spec as text that is the same however it was written.
func TestTemplateVersions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin, member := w.as("admin"), w.as("member")
	w.workspace("quickstart", "ready", "prewarm")
	w.workspace("quickstart", "claimed", "member")
	w.workspace("quickstart", "deleted", "prewarm")
	second := strings.Replace(configuration, "spec: {command: [x]}", "spec: {timeout: 12345678901234567, command: [x, y]}", 1)
	_, err := admin.Apply(ctx, sdk.ApplyRequest{Document: second})
	require.NoError(t, err)
	w.workspace("quickstart", "starting", "prewarm")

	list, err := member.TemplateVersions(ctx, "quickstart", 0, 0)
	require.NoError(t, err)
	require.Zero(t, list.Next)
	require.Len(t, list.Versions, 2)
	now, before := list.Versions[0], list.Versions[1]
	require.Equal(t, []any{2, true, 1, 0, "roomy", "admin"},
		[]any{now.Number, now.Active, now.Unclaimed, now.Claimed, now.Provider, now.CreatedBy})
	require.Equal(t, []any{1, false, 1, 1, "owner"},
		[]any{before.Number, before.Active, before.Unclaimed, before.Claimed, before.CreatedBy})

	page, err := member.TemplateVersions(ctx, "quickstart", 1, 0)
	require.NoError(t, err)
	require.Equal(t, sdk.TemplateVersionList{Versions: list.Versions[:1], Next: 2}, page)
	page, err = member.TemplateVersions(ctx, "quickstart", 1, page.Next)
	require.NoError(t, err)
	require.Equal(t, sdk.TemplateVersionList{Versions: list.Versions[1:]}, page)

	shown, err := member.TemplateVersion(ctx, "quickstart", 2)
	require.NoError(t, err)
	require.Equal(t, now.ID, shown.ID)
	require.Equal(t, "provider: roomy\nspec:\n  command:\n  - x\n  - \"y\"\n  timeout: 12345678901234567\n", shown.Text)
	require.JSONEq(t, `{"timeout": 12345678901234567, "command": ["x", "y"]}`, string(shown.Spec))

	_, err = member.TemplateVersion(ctx, "quickstart", 3)
	require.ErrorContains(t, err, "no version 3: the active one is 2")
	_, err = member.TemplateVersions(ctx, "quikstart", 0, 0)
	require.ErrorContains(t, err, "quickstart")
	a := w.call(w.token["member"], http.MethodGet, "/api/v1/templates/quickstart?versions=false", "")
	require.NotContains(t, a.body, `"versions"`)
	a = w.call(w.token["member"], http.MethodGet, "/api/v1/templates/quickstart", "")
	require.Contains(t, a.body, `"versions"`)
}

// A rollout is shown by preset and version, with the version that a rollback would go to, and a deadline for as long as
// there is something to lose and nothing has shown that the new version works.
func TestTemplateRollout(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	w.workspace("quickstart", "ready", "prewarm")
	w.workspace("quickstart", "ready", "prewarm")
	w.workspace("quickstart", "claimed", "member")
	r, err := admin.TemplateRollout(ctx, "quickstart")
	require.NoError(t, err)
	require.Equal(t, []any{1, 0, "1h0m0s", 1}, []any{r.Version, r.Back, r.ProgressDeadline, len(r.Presets)})
	require.Nil(t, r.Presets[0].DeadlineAt, "nothing is replaced")
	require.Equal(t, []sdk.VersionSlots{{Version: 1, Active: true, Slots: sdk.Slots{Ready: 2, Claimed: 1}}}, r.Presets[0].Versions)

	_, err = admin.Apply(ctx, sdk.ApplyRequest{Document: strings.Replace(configuration, "[x]", "[y]", 1)})
	require.NoError(t, err)
	w.workspace("quickstart", "starting", "prewarm")
	r, err = admin.TemplateRollout(ctx, "quickstart")
	require.NoError(t, err)
	require.Equal(t, []any{2, 1}, []any{r.Version, r.Back})
	preset := r.Presets[0]
	require.Equal(t, []any{"default", 3, true, false}, []any{preset.Preset, preset.Desired, preset.Pool, preset.Proven})
	require.Equal(t, []sdk.VersionSlots{
		{Version: 2, Active: true, Slots: sdk.Slots{Starting: 1}},
		{Version: 1, Slots: sdk.Slots{Outdated: 2, Claimed: 1}},
	}, preset.Versions)
	require.NotNil(t, preset.DeadlineAt)
	require.Equal(t, 3600.0, preset.DeadlineAt.Sub(*preset.BeganAt).Seconds())

	w.exec(`INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
		SELECT p.id, p.pool_key, now() FROM presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart'`)
	r, err = w.as("auditor").TemplateRollout(ctx, "quickstart")
	require.NoError(t, err)
	require.True(t, r.Presets[0].Proven)
	require.Nil(t, r.Presets[0].DeadlineAt, "it has shown that it works")

	_, err = admin.RollbackTemplate(ctx, "quickstart", sdk.RollbackRequest{})
	require.NoError(t, err)
	r, err = admin.TemplateRollout(ctx, "quickstart")
	require.NoError(t, err)
	require.Equal(t, []any{1, 2}, []any{r.Version, r.Back})
	require.Equal(t, []sdk.VersionSlots{
		{Version: 2, Slots: sdk.Slots{Outdated: 1}},
		{Version: 1, Active: true, Slots: sdk.Slots{Ready: 2, Claimed: 1}},
	}, r.Presets[0].Versions)
	_, err = admin.TemplateRollout(ctx, "nothing")
	require.ErrorContains(t, err, "nothing")
}
