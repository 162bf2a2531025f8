package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Owners set quotas, on the record; what is beyond one is refused with the numbers, and nothing is changed.
func TestQuotas(t *testing.T) {
	w := newWorld(t)
	number := func(n int32) *int32 { return &n }
	for range 3 {
		w.workspace("quickstart", "ready", "prewarm")
	}
	owner, member := w.as("owner"), w.as("member")
	for says, bad := range map[string]sdk.QuotaRequest{
		"maximum -1: it must be 1 or more":          {Maximum: number(-1), MaximumPerUser: number(2)},
		"maximum_per_user -5: it must be 1 or more": {Maximum: number(2), MaximumPerUser: number(-5)},
		"say maximum, maximum_per_user or both":     {},
	} {
		_, err := owner.SetQuota(t.Context(), bad)
		require.ErrorContains(t, err, says)
	}
	_, err := member.SetQuota(t.Context(), sdk.QuotaRequest{Maximum: number(100)})
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
	unset, err := member.Quotas(t.Context())
	require.NoError(t, err)
	require.Len(t, unset, 1)
	require.Nil(t, unset[0].Maximum)
	require.Nil(t, unset[0].MaximumPerUser)

	set, err := owner.SetQuota(t.Context(), sdk.QuotaRequest{Maximum: number(5), MaximumPerUser: number(1)})
	require.NoError(t, err)
	require.Equal(t, int32(5), *set.Maximum)
	set, err = owner.SetQuota(t.Context(), sdk.QuotaRequest{Maximum: number(0)})
	require.NoError(t, err)
	require.Nil(t, set.Maximum, "0 is any number")
	require.Equal(t, int32(1), *set.MaximumPerUser, "what is left out stays")

	claim := sdk.ClaimRequest{Template: "quickstart", Preset: "default", Mode: "require"}
	first, err := member.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.NotNil(t, first.WorkspaceID, first.Reason)
	_, err = member.Claim(t.Context(), claim)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
	require.ErrorContains(t, err, "the limit per user in organization default is 1, 1 are claimed or waited for and 1 asked for")
	now, err := member.Quotas(t.Context())
	require.NoError(t, err)
	require.Equal(t, set.Claimed+1, now[0].Claimed, "the refused claim left nothing")

	log, err := owner.Audit(t.Context(), sdk.AuditFilter{Action: "quota.set"})
	require.NoError(t, err)
	require.Len(t, log.Entries, 2, "what was refused changed nothing")

	_, err = member.RenewWorkspace(t.Context(), first.Name, "2h")
	require.NoError(t, err)
	log, err = owner.Audit(t.Context(), sdk.AuditFilter{Action: "workspace.renew"})
	require.NoError(t, err)
	require.Len(t, log.Entries, 1)
}
