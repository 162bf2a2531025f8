package prebuilds

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S4: as many as are available, at most up to the maximum, and never fewer than there are.
func TestAllMachines(t *testing.T) {
	t.Parallel()
	ws := []Workspace{{State: Ready}, {State: Starting}, {State: Provisioning}, {State: Draining}, {State: Ready, HasIntent: true}}
	for _, tc := range []struct {
		name   string
		limits Limits
		want   int
	}{
		{"all that are available", Limits{Reserves: true, Available: 4}, 7},
		{"none", Limits{Reserves: true}, 3},
		{"more are on their way than there are machines", Limits{Reserves: true, Available: -2}, 3},
		{"a stale listing", Limits{Reserves: true, Available: 4, Stale: true}, 3},
		{"up to the maximum", Limits{Reserves: true, Available: 4, Maximum: 10, Live: 8}, 5},
		{"beyond the maximum", Limits{Reserves: true, Available: 4, Maximum: 2, Live: 5}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, allMachines(ws, tc.limits))
		})
	}
}

// S4: creates are held to the machines that are unused; what a stale listing says is not counted on, and nothing goes for it.
func TestClamp_machines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		limits Limits
		want   int
		reason string
	}{
		{"enough", Limits{Chunk: 20, Reserves: true, Available: 15}, 10, ""},
		{"too few", Limits{Chunk: 20, Reserves: true, Available: 4}, 4, "unused machines of provider sim"},
		{
			"fewer than the maximum leaves",
			Limits{Chunk: 20, Maximum: 8, Live: 2, Reserves: true, Available: 4},
			4,
			"unused machines of provider sim",
		},
		{
			"the maximum is nearer",
			Limits{Chunk: 20, Maximum: 5, Live: 2, Reserves: true, Available: 4},
			3,
			"maximum 5 of provider sim",
		},
		{
			"stale",
			Limits{Chunk: 20, Reserves: true, Available: 15, Stale: true},
			0,
			"machines not listed lately at provider sim",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var c contest
			plan := c.enter(t, 0, 10)
			c.clamp(tc.limits)
			require.Equal(t, tc.want, plan.Create)
			var why string
			for _, line := range plan.Ledger.Creates {
				if line.Rule == "S4" {
					why = line.Reason.String()
				}
			}
			require.Equal(t, tc.reason, why)
		})
	}
}
