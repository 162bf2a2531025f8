package api_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func TestApply(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	more := strings.Replace(configuration, "instances: 3", "instances: 5", 1)

	before := w.dump()
	dry, err := admin.Apply(ctx, sdk.ApplyRequest{Document: more, File: "f.yaml", DryRun: true})
	require.NoError(t, err)
	require.True(t, dry.DryRun)
	require.Len(t, dry.Changes, 1)
	require.Equal(t, []string{"instances: 3 -> 5"}, dry.Changes[0].Fields)
	require.Equal(t, before, w.dump())
	require.Empty(t, w.nudged)

	done, err := admin.Apply(ctx, sdk.ApplyRequest{Document: more, File: "f.yaml"})
	require.NoError(t, err)
	require.Equal(t, dry.Changes, done.Changes)
	require.Len(t, w.nudged, 1)
	require.Zero(t, w.providers)
	done, err = admin.Apply(ctx, sdk.ApplyRequest{Document: more, File: "f.yaml"})
	require.NoError(t, err)
	require.Equal(t, []sdk.Change{}, done.Changes)
	require.Len(t, w.nudged, 1)
	second := sdk.ApplyRequest{Document: "providers: [{name: second, kind: bare}]"}
	_, err = admin.Apply(ctx, second)
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err), "providers are the owner's: %v", err)
	require.ErrorContains(t, err, "apply provider second: there is no such provider yet")
	require.Zero(t, w.providers)
	_, err = w.as("owner").Apply(ctx, second)
	require.NoError(t, err)
	require.Equal(t, 1, w.providers)

	before = w.dump()
	for name, test := range map[string]struct{ document, location, message string }{
		"malformed":       {"templates:\n  - name: [", "f.yaml:2:11", "malformed YAML"},
		"empty":           {"", "f.yaml:1:1", "the file is empty"},
		"unknown key":     {"templats: []", "f.yaml:1:1", `did you mean "templates"?`},
		"provider":        {"templates: [{name: a, provider: x, spec: {}}]", "f.yaml:1:33", "there are bare, roomy, second"},
		"minus one":       {strings.Replace(more, "instances: 5", "instances: -1", 1), "f.yaml:11:32", "between 0 and 10000"},
		"ten million":     {strings.Replace(more, "instances: 5", "instances: 10000000", 1), "f.yaml:11:32", "between 0 and 10000"},
		"bad duration":    {strings.Replace(more, "8h", "8 hours", 1), "f.yaml:11:40", "is not a duration"},
		"path separators": {strings.Replace(more, "name: quickstart", "name: ../quickstart", 1), "f.yaml:6:11", "lower-case letters"},
		"kind":            {"providers: [{name: z, kind: warp}]", "f.yaml:1:29", "it is one of bare, roomy"},
	} {
		_, err := w.as("owner").Apply(ctx, sdk.ApplyRequest{Document: test.document, File: "f.yaml"})
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), name)
		var e *sdk.Error
		require.ErrorAs(t, err, &e, name)
		require.Contains(t, e.Detail, "nothing was applied")
		require.Equal(t, test.location, e.Errors[0].Location, name)
		require.Contains(t, e.Errors[0].Message, test.message, name)
		require.Equal(t, before, w.dump(), name)
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	list, err := w.as("member").Templates(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	shown, err := w.as("member").Template(ctx, "quickstart")
	require.NoError(t, err)
	require.Equal(t, 1, shown.ActiveVersion)
	require.Equal(t, []string{"default"}, shown.Presets)
	require.Equal(t, "20m0s", shown.BootTimeout)
	require.Len(t, shown.Versions, 1)
	require.JSONEq(t, `{"command":["x"]}`, string(shown.Versions[0].Spec))

	require.NoError(t, admin.DeprecateTemplate(ctx, "quickstart"))
	preset, err := admin.Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Zero(t, preset.Desired)
	require.NoError(t, admin.UndeprecateTemplate(ctx, "quickstart"))
	require.NoError(t, admin.DeleteTemplate(ctx, "quickstart"))
	require.Len(t, w.nudged, 3)
	_, err = admin.Template(ctx, "quickstart")
	require.EqualError(t, err, `there is no template "quickstart": there is only plain`)
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
}

func TestTokensOverHTTP(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	who, err := w.as("member").Login(ctx)
	require.NoError(t, err)
	require.Equal(t, "member", who.User)
	require.Equal(t, "member", who.Role)
	require.Equal(t, "default", who.Organization)

	made, err := w.as("member").CreateToken(ctx, sdk.CreateTokenRequest{Name: "laptop", ExpiresIn: "1h"})
	require.NoError(t, err)
	require.NotNil(t, made.ExpiresAt)
	w.token["laptop"] = made.Secret
	_, err = w.as("laptop").Whoami(ctx)
	require.NoError(t, err)

	mine, err := w.as("member").Tokens(ctx)
	require.NoError(t, err)
	require.Len(t, mine, 2)
	all, err := w.as("owner").Tokens(ctx)
	require.NoError(t, err)
	require.Len(t, all, 7, "five users', the first start's, and the laptop's")
	_, err = w.as("member").CreateToken(ctx, sdk.CreateTokenRequest{Name: "x", User: "owner"})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
	_, err = w.as("member").CreateToken(ctx, sdk.CreateTokenRequest{Name: "x", ExpiresIn: "-1h"})
	require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err))

	require.NoError(t, w.as("member").RevokeToken(ctx, "laptop"))
	require.Eventually(t, func() bool {
		_, err := w.as("laptop").Whoami(ctx)
		return sdk.StatusOf(err) == http.StatusUnauthorized
	}, eventually, poll)
	err = w.as("member").RevokeToken(ctx, "owner")
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))
}

func TestPauses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	for _, p := range []sdk.PauseRequest{
		{Scope: "global", Reason: "move"},
		{Scope: "provider", Target: "bare", Reason: "full", ExpiresIn: "2h"},
		{Scope: "template", Target: "quickstart", Reason: "broken"},
		{Scope: "preset", Target: "quickstart/default", Reason: "costs"},
	} {
		made, err := admin.Pause(ctx, p)
		require.NoError(t, err, p)
		require.Equal(t, "admin", made.CreatedBy)
		require.Equal(t, p.ExpiresIn != "", made.ExpiresAt != nil)
	}
	_, err := admin.Pause(ctx, sdk.PauseRequest{Scope: "global", Reason: "still moving"})
	require.NoError(t, err)
	pauses, err := admin.Pauses(ctx)
	require.NoError(t, err)
	var got []string
	for _, p := range pauses {
		got = append(got, p.Scope+" "+p.Target+" "+p.Reason)
	}
	require.Equal(t, []string{
		"global  still moving", "provider bare full", "template quickstart broken", "preset quickstart/default costs",
	}, got)

	for _, p := range []sdk.PauseRequest{
		{Scope: "global", Target: "x", Reason: "r"},
		{Scope: "provider", Target: "baer", Reason: "r"},
		{Scope: "template", Target: "x", Reason: "r"},
		{Scope: "preset", Target: "quickstart", Reason: "r"},
		{Scope: "preset", Target: "quickstart/x", Reason: "r"},
		{Scope: "moon", Reason: "r"},
		{Scope: "global"},
		{Scope: "global", Reason: "r", ExpiresIn: "soon"},
	} {
		before := w.dump()
		_, err := admin.Pause(ctx, p)
		require.Contains(t, []int{404, 422}, sdk.StatusOf(err), p)
		require.Equal(t, before, w.dump())
	}

	require.Len(t, w.nudged, 2+1+1+1+2, "what each pause covers, so that a pass says so and learns when it ends")
	listed, err := w.as("member").Presets(ctx)
	require.NoError(t, err)
	require.Equal(t, "global: still moving", listed[0].Paused)
	require.Nil(t, listed[0].PausedUntil)
	w.nudged = nil
	require.NoError(t, admin.Resume(ctx, "preset", "quickstart/default"))
	require.Len(t, w.nudged, 1)
	require.NoError(t, admin.Resume(ctx, "global", ""))
	require.Len(t, w.nudged, 3, "every template")
	listed, err = w.as("member").Presets(ctx)
	require.NoError(t, err)
	require.Equal(t, "plain", listed[0].Template)
	require.Equal(t, "provider: full", listed[0].Paused)
	require.NotNil(t, listed[0].PausedUntil)
	require.Equal(t, "template: broken", listed[1].Paused)
	_, err = w.store.Pool.Exec(ctx, "UPDATE pauses SET expires_at = now() - interval '1 second' WHERE scope = 'provider'")
	require.NoError(t, err)
	listed, err = w.as("member").Presets(ctx)
	require.NoError(t, err)
	require.Empty(t, listed[0].Paused, "it is over by the clock")
	_, err = admin.Pause(ctx, sdk.PauseRequest{Scope: "provider", Target: "bare", Reason: "full", ExpiresIn: "2h"})
	require.NoError(t, err)
	require.NoError(t, admin.Resume(ctx, "global", ""), "it is resumed already")
	pauses, err = admin.Pauses(ctx)
	require.NoError(t, err)
	require.Len(t, pauses, 2)
}

// forgeOperations change something of forges, for which TestForges has one that answers. That a deletion does without the word
// of a forge (runner.abandon) is an entry beside the deletion's: TestDeleteOfRunner has those.
var forgeOperations = []string{
	"put-forge-credential", "delete-forge-credential", "put-forge", "delete-forge", "stop-forge", "start-forge",
	"rotate-forge-secret", "reseal-forges", "check-forge", "install-forge-hook", "ping-forge-hook", "remove-forge-hook",
}

// TestAudit: whatever changes something leaves an entry with who, what, on what and from where; and only that does.
func TestAudit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin, owner := w.as("admin"), w.as("owner")
	start, err := owner.Audit(ctx, sdk.AuditFilter{Limit: 1})
	require.NoError(t, err)
	w.workspace("quickstart", "ready", "prewarm")
	mine, gone := w.workspace("quickstart", "claimed", "admin"), w.workspace("plain", "claimed", "admin")
	failed := w.workspace("quickstart", "quarantined", "prewarm")

	done := map[string]bool{}
	do := func(operation string, err error) {
		t.Helper()
		require.NoError(t, err, operation)
		done[operation] = true
	}
	_, err = admin.Login(ctx)
	do("login", err)
	w.signIn(w.token["admin"], nil)
	do("create-session", nil)
	_, err = admin.CreateToken(ctx, sdk.CreateTokenRequest{Name: "t"})
	do("create-token", err)
	do("revoke-token", admin.RevokeToken(ctx, "t"))
	_, err = admin.Claim(ctx, sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require"})
	do("create-claim", err)
	_, err = admin.RenewWorkspace(ctx, mine.Name, "1h")
	do("renew-workspace", err)
	_, err = admin.ReleaseWorkspace(ctx, mine.Name)
	do("release-workspace", err)
	_, err = admin.RetryWorkspace(ctx, failed.Name)
	do("retry-workspace", err)
	_, err = admin.KeepWorkspace(ctx, failed.Name, sdk.KeepRequest{Reason: "r"})
	do("keep-workspace", err)
	_, err = admin.DeleteWorkspace(ctx, gone.Name, false)
	do("delete-workspace", err)
	_, err = owner.DeleteWorkspace(ctx, gone.Name, true)
	do("delete-workspace", err)
	_, err = admin.Pause(ctx, sdk.PauseRequest{Scope: "template", Target: "plain", Reason: "r"})
	do("create-pause", err)
	do("delete-pause", admin.Resume(ctx, "template", "plain"))
	_, err = admin.Apply(ctx, sdk.ApplyRequest{Document: strings.Replace(configuration, "[x]", "[y]", 1)})
	do("apply", err)
	archive, digest := moduleArchive(t, "a")
	_, err = admin.UploadModule(ctx, digest, archive)
	do("upload-module", err)
	_, err = admin.RollbackTemplate(ctx, "quickstart", sdk.RollbackRequest{Reason: "r"})
	do("rollback-template", err)
	do("reset-preset", admin.ResetPreset(ctx, "quickstart", "default", "r"))
	do("invalidate-preset", admin.InvalidatePreset(ctx, "quickstart", "default", "r"))
	do("deprecate-template", admin.DeprecateTemplate(ctx, "plain"))
	do("undeprecate-template", admin.UndeprecateTemplate(ctx, "plain"))
	do("delete-template", admin.DeleteTemplate(ctx, "plain"))
	_, err = admin.ConfirmProvider(ctx, "bare")
	do("confirm-provider", err)
	_, err = w.store.Pool.Exec(ctx, openBreaker, "bare")
	require.NoError(t, err)
	_, err = admin.ResumeProvider(ctx, "bare")
	do("resume-provider", err)
	_, err = owner.DeleteProvider(ctx, "bare", true)
	do("delete-provider", err)
	_, err = owner.RotateSigningKey(ctx, sdk.RotateRequest{})
	do("rotate-signing-key", err)
	most := int32(9)
	_, err = owner.SetQuota(ctx, sdk.QuotaRequest{Maximum: &most})
	do("set-quota", err)
	for _, op := range operations(t) {
		// A nudge carries no state, a plan changes nothing, and reports and states are what workspaces and runs do, each in its row.
		if op.method == http.MethodGet || op.id == "nudge-preset" || op.id == "create-plan" || op.action == "instance.report" ||
			op.action == "state.write" {
			continue
		}
		if op.id == "delete-session" { // it is the browser that forgets
			continue
		}
		if op.id == "check-provider" { // needs a provider that works: see TestCheckProvider
			continue
		}
		if slices.Contains(forgeOperations, op.id) { // see TestForges, which holds their entries
			continue
		}
		if op.action == "workspace.use" { // needs an agent, and records sessions: see TestProcesses
			continue
		}
		if op.id == "test-notification" { // needs a webhook: see TestNotifications
			continue
		}
		require.True(t, done[op.id], "%s changes something and is not in this test", op.id)
	}

	var end time.Time
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT prewarm_now()").Scan(&end))
	var got []string
	var before int64
	for {
		page, err := w.as("auditor").Audit(ctx, sdk.AuditFilter{Limit: 4, Before: before})
		require.NoError(t, err)
		for _, e := range page.Entries {
			if e.ID <= start.Entries[0].ID {
				continue
			}
			require.Equal(t, "127.0.0.1", e.Source, e.Action)
			require.NotEmpty(t, e.TargetID, e.Action)
			require.WithinRange(t, e.At, start.Entries[0].At, end)
			got = append(got, e.Actor+" "+e.Action+" "+e.TargetType)
		}
		if before = page.Next; before == 0 || before <= start.Entries[0].ID {
			break
		}
	}
	require.Equal(t, []string{ // newest first
		"owner quota.set organization", "owner signing-key.rotate signing-key", "owner provider.delete provider",
		"admin provider.resume provider", "admin provider.confirm provider",
		"admin template.delete template", "admin template.undeprecate template", "admin template.deprecate template",
		"admin preset.invalidate preset", "admin preset.reset preset", "admin template.rollback template",
		"admin module.upload module", "admin version.create version", "admin pause.delete pause", "admin pause.create pause",
		"owner workspace.force-delete workspace", "admin workspace.delete workspace", "admin workspace.keep workspace", "admin workspace.retry workspace",
		"admin workspace.release workspace", "admin workspace.renew workspace",
		"admin workspace.claim workspace", "admin token.revoke token", "admin token.create token", "admin self.login user",
		"admin self.login user",
	}, got)

	for filter, n := range map[sdk.AuditFilter]int{
		{Action: "token.revoke"}: 1, {Actor: "auditor"}: 0, {Target: mine.Name}: 2, {Target: mine.ID.String()}: 2,
		{Actor: "owner", Action: "workspace.force-delete"}: 1,
	} {
		page, err := owner.Audit(ctx, filter)
		require.NoError(t, err)
		require.Len(t, page.Entries, n, filter)
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	list, err := w.as("admin").Replicas(ctx)
	require.NoError(t, err)
	require.NotNil(t, list)
	require.Empty(t, list)
	_, err = w.store.Pool.Exec(ctx, `
		INSERT INTO replicas (name, instance_id, version, address, started_at, heartbeat_at, stopping) VALUES
		  ('a', gen_random_uuid(), 'v1', '127.0.0.1:1', now(), now() + interval '1 minute', false), -- however long the test takes
		  ('b', gen_random_uuid(), 'v1', '127.0.0.1:2', now(), now() + interval '1 minute', true),
		  ('c', gen_random_uuid(), 'v1', '127.0.0.1:3', now(), now() - interval '1 minute', false)`)
	require.NoError(t, err)
	_, err = w.store.Pool.Exec(ctx, "UPDATE reconcile_fence SET holder = 'a'")
	require.NoError(t, err)
	list, err = w.as("admin").Replicas(ctx)
	require.NoError(t, err)
	var got []string
	for _, r := range list {
		got = append(got, r.Name+" "+r.State)
		require.Equal(t, r.Name == "a", r.LastPass)
	}
	require.Equal(t, []string{"a alive", "b stopping", "c stale"}, got)
}
