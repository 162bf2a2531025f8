package instance_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

// The secrets of a claim are wiped once the agent reports that it has written them, and those of no other claim.
func TestReport_secretsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, 1)
	i, err := w.service.Authenticate(t.Context(), w.token(w.service))
	require.NoError(t, err)
	claimID, other := i.InstanceOfRow.ClaimID.UUID, uuid.New()
	w.exec(`INSERT INTO claim_parameters (claim_id, parameters, secrets, created_at)
		SELECT unnest($1::uuid[]), '{"branch": "main"}', '{"token": "a secret of tests"}', now()`, []uuid.UUID{claimID, other})
	requireKept := func(want bool, id uuid.UUID) {
		t.Helper()
		var parameters, secrets bool
		require.NoError(t, w.store.Pool.QueryRow(t.Context(), `SELECT parameters = '{"branch": "main"}', secrets IS NOT NULL
			FROM claim_parameters WHERE claim_id = $1`, id).Scan(&parameters, &secrets))
		require.True(t, parameters)
		require.Equal(t, want, secrets)
	}
	report := func(written bool) {
		t.Helper()
		_, err := w.service.Report(t.Context(), i, instance.Report{
			Status: database.AgentStatusClaimReady, ClaimID: claimID, SecretsWritten: written,
		})
		require.NoError(t, err)
	}
	report(false)
	requireKept(true, claimID)
	for range 2 { // an agent whose report was not answered sends it again
		report(true)
		requireKept(false, claimID)
	}
	requireKept(true, other)
}

// An agent whose token is of an older key is given one of the newest, for as long as it asks with the older. Once it uses that, the
// older key goes, and the agent is still heard.
func TestReport_renewsTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	report := func(token string) string {
		t.Helper()
		i, err := w.service.Authenticate(t.Context(), token)
		require.NoError(t, err)
		renewed, err := w.service.Report(t.Context(), i, instance.Report{Status: database.AgentStatusReady})
		require.NoError(t, err)
		return renewed
	}
	first := w.token(w.service)
	require.Empty(t, report(first), "it is of the newest")
	w.rotate(w.service)
	require.NotEmpty(t, report(first))
	renewed := report(first)
	require.NotEmpty(t, renewed, "the answer before may have been lost")
	require.Empty(t, report(renewed))

	w.exec("UPDATE signing_keys SET created_at = created_at - interval '2 minutes'")
	retired, err := instancedb.New(w.store).RetireSigningKeys(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, retired, 1)
	w.service.Forget()
	_, err = w.service.Authenticate(t.Context(), first)
	require.Error(t, err)
	require.Empty(t, report(renewed))
}
