package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// insertClaim puts one into the database that waits (or is over) since so many seconds.
const insertClaim = `INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, reason, created_at,
		deadline_at, workspace_id, incarnation, bound_at, released_at, lease_s)
	SELECT gen_random_uuid(), p.organization_id, p.id, u.id, 'prefer', $3::text::claim_state, $4::text::claim_outcome, $5,
		now() - $6 * interval '1 s', now() + interval '1 min',
		CASE WHEN $3 = 'released' THEN gen_random_uuid() END, CASE WHEN $3 = 'released' THEN 1 END,
		CASE WHEN $3 = 'released' THEN now() - ($6 - 2) * interval '1 s' END,
		CASE WHEN $3 = 'released' THEN now() - interval '1 s' END, CASE WHEN $3 = 'released' THEN 7200 END
	FROM presets p JOIN templates t ON t.id = p.template_id, users u
	WHERE t.name = $1 AND p.name = 'default' AND u.name = $2`

// Claims are listed by their state: those that wait with their places in line, others the newest first; filtered, page by
// page, and for a member only the own ones, though with the places that they have among all.
func TestListClaims(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin, member := w.as("admin"), w.as("member")
	for _, c := range []struct {
		template, user, state string
		outcome               *string
		reason                string
		ago                   int
	}{
		{"quickstart", "other", "waiting", nil, "", 30},
		{"quickstart", "member", "waiting", nil, "", 20},
		{"plain", "member", "waiting", nil, "", 25},
		{"quickstart", "member", "missed", new("miss"), "the pool is empty", 40},
		{"quickstart", "member", "released", new("waited"), "", 60},
		{"plain", "other", "released", new("hit"), "", 50},
	} {
		w.exec(insertClaim, c.template, c.user, c.state, c.outcome, c.reason, c.ago)
	}
	mine := w.workspace("quickstart", "claimed", "member")
	theirs := w.workspace("plain", "claimed", "other")
	_, err := member.RenewWorkspace(ctx, mine.Name, "2h")
	require.NoError(t, err)

	list := func(client *sdk.Client, filter sdk.ClaimFilter) []sdk.ClaimRecord {
		t.Helper()
		page, err := client.Claims(ctx, filter)
		require.NoError(t, err)
		require.Empty(t, page.Next)
		return page.Claims
	}
	line := list(admin, sdk.ClaimFilter{State: "waiting"})
	type place struct {
		user, template string
		place          int
	}
	places := func(claims []sdk.ClaimRecord) []place {
		var p []place
		for _, c := range claims {
			p = append(p, place{c.User, c.Template, c.Place})
		}
		return p
	}
	require.Equal(t, []place{{"other", "quickstart", 1}, {"member", "plain", 1}, {"member", "quickstart", 2}}, places(line))
	require.NotNil(t, line[0].DeadlineAt)
	require.GreaterOrEqual(t, line[0].WaitedMS, 30_000.0)
	require.Empty(t, line[0].Outcome)
	own := list(member, sdk.ClaimFilter{State: "waiting"})
	require.Equal(t, []place{{"member", "plain", 1}, {"member", "quickstart", 2}}, places(own), "with the place among all")
	require.Equal(t, own[1:], sameWait(list(admin, sdk.ClaimFilter{State: "waiting", User: "member", Template: "quickstart"}), own[1:]))
	require.Empty(t, list(member, sdk.ClaimFilter{State: "waiting", User: "other"}), "others' are nobody's business")

	held := list(admin, sdk.ClaimFilter{})
	require.Len(t, held, 2)
	require.Equal(t, theirs.Name, held[0].Workspace, "the newest first")
	require.Equal(t, []any{"bound", "hit", "2h0m0s", "quickstart", "default"},
		[]any{held[1].State, held[1].Outcome, held[1].Lease, held[1].Template, held[1].Preset})
	require.NotNil(t, held[1].LeaseUntil)
	require.Nil(t, held[0].LeaseUntil)
	require.Equal(t, held[1:], list(member, sdk.ClaimFilter{}))
	require.Equal(t, held[1:], list(admin, sdk.ClaimFilter{Template: "quickstart", Preset: "default", User: "member", Outcome: "hit"}))
	require.Empty(t, list(admin, sdk.ClaimFilter{Outcome: "cold"}))
	page, err := admin.Claims(ctx, sdk.ClaimFilter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, held[:1], page.Claims)
	page, err = admin.Claims(ctx, sdk.ClaimFilter{Limit: 1, After: page.Next})
	require.NoError(t, err)
	require.Equal(t, sdk.ClaimList{Claims: held[1:]}, page)

	released := list(admin, sdk.ClaimFilter{State: "released"})
	require.Len(t, released, 2)
	waited := list(admin, sdk.ClaimFilter{State: "released", Outcome: "waited"})
	require.Len(t, waited, 1)
	require.InDelta(t, 2_000, *waited[0].Receipt.WaitMS, 1)
	require.NotNil(t, waited[0].ReleasedAt)
	missed := list(w.as("auditor"), sdk.ClaimFilter{State: "missed"})
	require.Equal(t, []any{1, "the pool is empty", "member"}, []any{len(missed), missed[0].Reason, missed[0].User})
	line = list(admin, sdk.ClaimFilter{State: "waiting", Outcome: "hit"})
	require.Empty(t, line, "they have no outcome yet")

	for _, query := range []string{"state=held", "after=x", "limit=501", "outcome=warm"} {
		a := w.call(w.token["member"], http.MethodGet, "/api/v1/claims?"+query, "")
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.status, query)
	}
}

// sameWait makes what grows with the time the same as it was.
func sameWait(claims, as []sdk.ClaimRecord) []sdk.ClaimRecord {
	for i := range claims {
		claims[i].WaitedMS = as[i].WaitedMS
	}
	return claims
}
