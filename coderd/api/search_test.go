package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A search finds parts of words in any case, each of them somewhere, and takes no sign for a pattern.
func TestSearch_findsPartsOfWords(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin, member := w.as("admin"), w.as("member")
	mine := w.workspace("quickstart", "claimed", "member")
	theirs := w.workspace("plain", "claimed", "other")
	w.exec(insertClaim, "quickstart", "member", "waiting", nil, "", 20)
	w.exec(insertClaim, "plain", "other", "released", "hit", "", 50)
	_, err := admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", Token: "t"})
	require.NoError(t, err)
	shop, err := admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Scope: "repository", Path: "acme/shop", Credential: "acme"})
	require.NoError(t, err)
	w.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since, created_at)
		SELECT w.id, w.incarnation, w.preset_id, $1, w.name, 'active', now(), now(), now() FROM workspaces w WHERE w.id = $2`, shop.ID, mine.ID)
	w.exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, name, labels, state, queued_at,
		  runner_name, seen_at, updated_at)
		VALUES (gen_random_uuid(), $1, 'u', 4711, 1, $2, 'acme/shop', 'Unit Tests', '{linux,arm64}', 'queued', now(), '', now(), now())`,
		w.owner.OrganizationID, shop.ID)

	claims := func(c *sdk.Client, state, q string) (names []string) {
		page, err := c.Claims(ctx, sdk.ClaimFilter{State: state, Q: q})
		require.NoError(t, err)
		require.Empty(t, page.Next)
		for _, c := range page.Claims {
			names = append(names, c.Template+" "+c.User)
		}
		return names
	}
	held := func(q string) (names []string) {
		page, err := admin.Workspaces(ctx, sdk.WorkspaceFilter{State: "claimed", Q: q})
		require.NoError(t, err)
		for _, w := range page.Workspaces {
			names = append(names, w.Name)
		}
		return names
	}
	audit := func(q string) (actions []string) {
		page, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Q: q})
		require.NoError(t, err)
		require.Zero(t, page.Next)
		for _, e := range page.Entries {
			actions = append(actions, e.Action)
		}
		return actions
	}
	jobs := func(q string) int {
		page, err := admin.ForgeJobs(ctx, sdk.ForgeJobFilter{Q: q})
		require.NoError(t, err)
		return len(page.Jobs)
	}
	runners := func(q string) int {
		page, err := admin.Runners(ctx, sdk.RunnerFilter{Q: q})
		require.NoError(t, err)
		return len(page.Runners)
	}

	require.Equal(t, []string{"quickstart member"}, claims(admin, "bound", "ICKst MEMB"))
	require.Equal(t, []string{"plain other"}, claims(admin, "bound", strings.ToUpper(theirs.Name[5:15])))
	require.Equal(t, []string{"quickstart member"}, claims(admin, "waiting", "start/def"))
	require.Equal(t, []string{"plain other"}, claims(admin, "released", "lai oth"))
	require.Empty(t, claims(admin, "bound", "quick other"), "each word must be there")
	require.Empty(t, claims(member, "bound", "plain"), "others' are nobody's business")
	require.Equal(t, []string{"quickstart member"}, claims(member, "bound", "quick"))

	require.Equal(t, []string{mine.Name}, held("Quick"))
	require.Equal(t, []string{theirs.Name}, held("oth "+theirs.Name[12:]))
	own, err := member.Workspaces(ctx, sdk.WorkspaceFilter{State: "claimed", Q: "pre-b"})
	require.NoError(t, err)
	require.Empty(t, own.Workspaces)

	require.Equal(t, []string{"forge.create"}, audit("ORGE.cre adm shop"))
	require.Equal(t, []any{1, 0, 1, 1}, []any{jobs("unit arm"), jobs("unit amd"), jobs("SHOP 471"), jobs("acme/")})
	require.Equal(t, []any{1, 0}, []any{runners("shop QUICK"), runners("shop plain")})
	for _, sign := range []string{"%", "_", `\`, "' OR 1=1 --"} {
		require.Empty(t, claims(admin, "bound", sign), sign)
		require.Empty(t, claims(admin, "waiting", sign), sign)
		require.Empty(t, claims(admin, "released", sign), sign)
		require.Empty(t, held(sign), sign)
		require.Zero(t, jobs(sign)+runners(sign), sign)
	}
}

// A search of a history looks at so many rows, says where it stopped, and goes on from there to what is older.
func TestSearch_goesThroughAHistoryInParts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	w.exec(`INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id, target_name, source)
		SELECT now() - n * interval '1 minute', u.id, $1, CASE n WHEN 25000 THEN 'needle.found' ELSE 'hay.moved' END, 'stack', 'x', 'hay', ''
		FROM generate_series(25000, 1, -1) n, users u WHERE u.name = 'admin'`, w.owner.OrganizationID)
	w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, created_at, deadline_at, reason)
		SELECT gen_random_uuid(), p.organization_id, p.id, u.id, 'prefer', 'missed', 'miss', now() - n * interval '1 s', now(), ''
		FROM generate_series(1, 25000) n, presets p JOIN templates t ON t.id = p.template_id, users u
		WHERE p.name = 'default' AND t.name = CASE n WHEN 25000 THEN 'plain' ELSE 'quickstart' END AND u.name = 'member'`)

	first, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Q: "eedle"})
	require.NoError(t, err)
	require.Empty(t, first.Entries)
	require.NotZero(t, first.Next)
	second, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Q: "eedle", Before: first.Next})
	require.NoError(t, err)
	require.Len(t, second.Entries, 1)
	require.Zero(t, second.Next)

	missed, err := admin.Claims(ctx, sdk.ClaimFilter{State: "missed", Q: "lain"})
	require.NoError(t, err)
	require.Empty(t, missed.Claims)
	missed, err = admin.Claims(ctx, sdk.ClaimFilter{State: "missed", Q: "lain", After: missed.Next})
	require.NoError(t, err)
	require.Len(t, missed.Claims, 1)
	require.Empty(t, missed.Next)
}

// A request with a count is listed with what is known of all its claims, and its claims by its id.
func TestListClaims_saysWhatIsOneRequest(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	group := uuid.New()
	w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, created_at, deadline_at, group_id)
		SELECT CASE n WHEN 1 THEN $1 ELSE gen_random_uuid() END, p.organization_id, p.id, u.id, 'prefer', 'waiting', now(), now() + interval '1 min', $1
		FROM generate_series(1, 3) n, presets p JOIN templates t ON t.id = p.template_id, users u
		WHERE p.name = 'default' AND t.name = 'quickstart' AND u.name = 'member'`, group)
	w.exec(insertClaim, "quickstart", "other", "waiting", nil, "", 20)
	w.workspace("quickstart", "ready", "member")

	line, err := w.as("admin").Claims(ctx, sdk.ClaimFilter{State: "waiting", User: "member"})
	require.NoError(t, err)
	require.Len(t, line.Claims, 3)
	for _, c := range line.Claims {
		require.Equal(t, &sdk.ClaimGroup{ID: group, Count: 3, Alike: 3, Ready: 1}, c.Group)
	}
	single, err := w.as("other").Claims(ctx, sdk.ClaimFilter{State: "waiting"})
	require.NoError(t, err)
	require.Nil(t, single.Claims[0].Group)

	w.exec(`UPDATE claims SET state = 'missed', outcome = 'miss' WHERE group_id = $1 AND id <> $1`, group)
	members, err := w.as("member").Claims(ctx, sdk.ClaimFilter{Group: group.String()})
	require.NoError(t, err)
	require.Len(t, members.Claims, 3)
	states := map[string]int{}
	for _, c := range members.Claims {
		states[c.State] = c.Group.Alike
	}
	require.Equal(t, map[string]int{"waiting": 1, "missed": 2}, states)
	others, err := w.as("other").Claims(ctx, sdk.ClaimFilter{Group: group.String()})
	require.NoError(t, err)
	require.Empty(t, others.Claims, "others' are nobody's business")
	_, err = w.as("member").Claims(ctx, sdk.ClaimFilter{Group: "x"})
	require.Error(t, err)
}
