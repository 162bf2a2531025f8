package prebuilds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What watchers read in a ledger is what the planner writes into it: if the words change, so must the reading.
func TestLedgerFacts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool  *pool
		going int
		limit bool
	}{
		"as it should be":             {newPool(2).add(2, Ready), 0, false},
		"backoff":                     {newPool(2).with(failed(1, 0)), 0, false},
		"hard limit":                  {newPool(2).with(failed(HardLimit, 0)), 0, true},
		"hard limit of a full pool":   {newPool(2).with(failed(HardLimit, 0)).add(2, Ready), 0, false},
		"expired and extraneous ones": {newPool(1).add(2, Ready, expired).add(1, Provisioning).add(2, Ready), 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := tc.pool.plan()
			require.NoError(t, err)
			assert.Equal(t, tc.going, plan.Ledger.Going())
			assert.Len(t, plan.Intents, tc.going)
			why, stopped := plan.Ledger.HardLimit()
			assert.Equal(t, tc.limit, stopped, why)
		})
	}
}
