package prebuilds

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMakePlanRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		pool       *pool
	}{
		{"negative desired", "desired is negative: -1", newPool(-1)},
		{"negative waiting", "waiting is negative: -2", newPool(1).with(waiting(-2))},
		{"negative streak", "failure streak is negative: -1", newPool(1).with(failed(-1, 0))},
		{"unknown state", `in state "melting"`, newPool(1).add(1, "melting")},
		{"no state", `in state ""`, newPool(1).add(1, "")},
		{"a claimed one", `in state "claimed"`, newPool(1).add(1, Claimed)},
		{"a deleted one", `in state "deleted"`, newPool(1).add(1, Deleted)},
		{
			"one of another preset", "is of preset " + numbered(7).String(),
			newPool(1).add(1, Ready, func(w *Workspace) { w.PresetID = numbered(7) }),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.pool.plan()
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "plan preset go/default")
		})
	}
}

// TestBackoff: C8. Each row is how long ago the last of so many failures in a row was.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		failed  func(*Preset)
		create  int
		retryIn time.Duration
	}{
		{"no failure", failed(0, 0), 2, 0},
		{"first, just now", failed(1, 0), 0, 5 * time.Second},
		{"first, nearly over", failed(1, 5*time.Second-1), 0, 1},
		{"first, over", failed(1, 5*time.Second), 2, 0},
		{"second, after the first one's time", failed(2, 5*time.Second), 0, 5 * time.Second},
		{"second, over", failed(2, 10*time.Second), 2, 0},
		{"hard limit", failed(3, 0), 0, 0},
		{"hard limit, long ago", failed(3, 24*time.Hour), 0, 0},
		{"beyond the hard limit", failed(1<<40, 24*time.Hour), 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan, err := newPool(2).with(tc.failed).plan()
			require.NoError(t, err)
			assert.Equal(t, tc.create, plan.Create)
			if tc.retryIn == 0 {
				assert.Zero(t, plan.RetryAt)
			} else {
				assert.Equal(t, noon.Add(tc.retryIn), plan.RetryAt)
			}
		})
	}
}

// TestBackoffKeepsNothingAlive: C8. What failing creates hold back is creates, never drains.
func TestBackoffKeepsNothingAlive(t *testing.T) {
	t.Parallel()
	for streak := range HardLimit + 1 {
		plan, err := newPool(2).with(failed(streak, 0)).add(2, Ready, expired).add(3, Starting, old).plan()
		require.NoError(t, err)
		assert.Len(t, plan.Intents, 5, "after %d failures", streak)
	}
}

func TestRetryAt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pool *pool
		want time.Duration // from noon; 0 is never
	}{
		{"nothing expires", newPool(1).add(1, Ready), 0},
		{
			"the first of several expiries",
			newPool(2).add(1, Ready, expires(time.Hour)).add(1, Starting, expires(time.Minute)), time.Minute,
		},
		{"already expired", newPool(1).add(1, Ready, expired), 0},
		{
			"being deleted anyway",
			newPool(0).add(1, Deleting, expires(time.Minute)).add(1, Draining, expires(time.Minute)), 0,
		},
		{"backoff before expiry", newPool(2).with(failed(1, 0)).add(1, Ready, expires(time.Minute)), 5 * time.Second},
		{
			"expiry before the end of a backoff",
			newPool(2).with(failed(1, 0)).add(1, Ready, expires(time.Second)), time.Second,
		},
		{"a backoff that holds nothing back", newPool(1).with(failed(1, 0)).add(1, Ready), 0},
		{"a backoff beneath a pause", newPool(1).with(failed(1, 0)).with(paused), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan, err := tc.pool.plan()
			require.NoError(t, err)
			var want time.Time
			if tc.want != 0 {
				want = noon.Add(tc.want)
			}
			assert.Equal(t, want, plan.RetryAt)
		})
	}
}

// TestLedgerOnTheWire fixes what is stored as the status of a preset and read back from it.
func TestLedgerOnTheWire(t *testing.T) {
	t.Parallel()
	plan, err := newPool(2).with(failed(1, time.Second)).add(1, Ready).add(1, Ready, expired).plan()
	require.NoError(t, err)
	stored := Words.Stored(plan.Ledger)
	raw, err := json.Marshal(stored)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"creates": [
			{"label": "desired", "count": 2},
			{"label": "actual", "count": -1},
			{"label": "held back", "count": -1, "rule": "C8",
			 "reason": "backoff, until 2026-03-01T12:00:04Z: 1 failed create in a row: image golang:1.26 not found",
			 "code": "backoff", "args": {"until": "2026-03-01T12:00:04Z", "count": 1, "cause": "image golang:1.26 not found"}}
		],
		"create": 0,
		"drains": [{"label": "drain", "count": 1, "rule": "C9", "reason": "expired", "code": "expired"}]
	}`, string(raw))

	var back Ledger
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, stored, back)
	for i := range back.Creates {
		back.Creates[i].Reason = Reason{} // as a release before codes has it
	}
	assert.Equal(t, stored.String(), back.String(), "the words are read as they are")

	raw, err = json.Marshal(Plan{Intents: plan.Intents[:0], Ledger: Ledger{}})
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "retry_at", "never is left out")
}
