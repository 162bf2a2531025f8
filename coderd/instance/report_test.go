package instance_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/database"
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
