package prebuilds

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCountOneClass gives each class one workspace that also fits every later class, so that the order of the tests is
// what decides.
func TestCountOneClass(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pool *pool
		want Counts
	}{
		{"deleting comes before all", newPool(0).add(1, Deleting, withIntent, old, expired), Counts{Deleting: 1}},
		{"draining is stopping", newPool(0).add(1, Draining, old, expired), Counts{Stopping: 1}},
		{"an intent is stopping", newPool(0).add(1, Provisioning, withIntent, old, expired), Counts{Stopping: 1}},
		{"an intent on a quarantined one", newPool(0).add(1, Quarantined, withIntent), Counts{Stopping: 1}},
		{"quarantined", newPool(0).add(1, Quarantined, old, expired), Counts{Quarantined: 1}},
		{"outdated comes before expired", newPool(0).add(1, Ready, old, expired), Counts{Outdated: 1}},
		{"outdated, not ready", newPool(0).add(1, Starting, old), Counts{Outdated: 1}},
		{"expired", newPool(0).add(1, Ready, expired), Counts{Expired: 1}},
		{"expired before it was ready", newPool(0).add(1, Provisioning, expired), Counts{Expired: 1}},
		{"provisioning is starting", newPool(1).add(1, Provisioning, leased), Counts{Desired: 1, Starting: 1}},
		{"starting", newPool(1).add(1, Starting, expires(time.Nanosecond)), Counts{Desired: 1, Starting: 1}},
		{"ready is actual", newPool(1).add(1, Ready, expires(time.Nanosecond)), Counts{Desired: 1, Actual: 1, Eligible: 1}},
		{"standby is actual in its tier", newPool(1).add(1, Standby), Counts{Desired: 1, Actual: 1, Standby: 1, Eligible: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := Count(tc.pool.preset, tc.pool.workspaces, noon)
			assert.Equal(t, tc.want.Unclaimed(), got.Unclaimed())
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestCountEligible(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pool *pool
		want int
	}{
		{"ready", newPool(1).add(1, Ready), 1},
		{"ready with an intent: a claim wins", newPool(1).add(1, Ready, withIntent), 1},
		{"standby", newPool(1).add(1, Standby), 1},
		{"standby, expired", newPool(1).add(1, Standby, expired), 0},
		{"outdated", newPool(1).add(1, Ready, old), 0},
		{"outdated, where the template keeps it", newPool(1).with(keeps).add(1, Ready, old), 1},
		{"outdated and kept, but expired", newPool(1).with(keeps).add(1, Ready, old, expired), 0},
		{"at the instant of expiry", newPool(1).add(1, Ready, expires(0)), 0},
		{"retired", newPool(1).with(deleted).add(1, Ready), 0},
		{"paused: claims go on", newPool(1).with(paused).add(1, Ready), 1},
		{"every state but ready and standby", newPool(1).add(1, Provisioning).add(1, Starting).add(1, Draining).
			add(1, Deleting).add(1, Quarantined), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, Count(tc.pool.preset, tc.pool.workspaces, noon).Eligible)
		})
	}
}

func TestCountExtraneous(t *testing.T) {
	t.Parallel()
	pool := newPool(2).with(waiting(1)).add(3, Ready).add(2, Starting).add(4, Ready, old).add(1, Ready, withIntent)
	assert.Equal(t, 2, Count(pool.preset, pool.workspaces, noon).Extraneous, "3 + 2 of 2 + 1")

	pool.with(deleted)
	got := Count(pool.preset, pool.workspaces, noon)
	assert.Equal(t, 5, got.Extraneous, "a retired preset wants none, not even for who waits")
	assert.Zero(t, got.Desired)
}

// TestCountsOnTheWire fixes the words that the API's counts are read from.
func TestCountsOnTheWire(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(Counts{
		Desired: 1, Actual: 2, Eligible: 3, Starting: 4, Stopping: 5, Deleting: 6, Outdated: 7, Extraneous: 8, Expired: 9,
		Quarantined: 10, Waiting: 11, Standby: 12,
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"desired":1,"actual":2,"eligible":3,"starting":4,"stopping":5,"deleting":6,"outdated":7,
		"extraneous":8,"expired":9,"quarantined":10,"waiting":11,"standby":12}`, string(raw))
}
