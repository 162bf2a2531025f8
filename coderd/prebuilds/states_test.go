package prebuilds

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var allStates = []State{
	Provisioning, Starting, Ready, Standby, Claimed, Draining, Deleting, Deleted, Quarantined,
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	seen := make(map[Transition]bool)
	for _, row := range Transitions {
		require.True(t, row.From == "" || Live(row.From) || row.From == Deleted, "unknown state in %+v", row)
		require.True(t, Live(row.To) || row.To == Deleted, "unknown state in %+v", row)
		require.NotEmpty(t, row.Event, "%+v", row)
		require.True(t, CanMove(row.From, row.To), "%+v", row)
		key := Transition{From: row.From, Event: row.Event, Guard: row.Guard}
		require.False(t, seen[key], "the same event under the same guard leads to two states: %+v", row)
		seen[key] = true
	}
}

// TestCanMove names what must never happen, whatever rows are added.
func TestCanMove(t *testing.T) {
	t.Parallel()
	for _, to := range []State{Deleting, Deleted, Quarantined, Standby, Ready} {
		assert.False(t, CanMove(Claimed, to), "I2: a claimed workspace goes by way of draining, not to %s", to)
	}
	for _, from := range []State{"", Provisioning, Starting, Draining, Deleting, Deleted, Quarantined} {
		assert.False(t, CanMove(from, Claimed), "only what is ready or on standby can be claimed, not %q", from)
	}
	for _, to := range allStates {
		if to != Deleted {
			assert.False(t, CanMove(Deleted, to), "I1: a deleted workspace never comes back as %s", to)
		}
	}
	assert.False(t, CanMove(Draining, Ready), "draining is not undone")
	assert.False(t, CanMove("", Ready))
	assert.False(t, CanMove("nonsense", Ready))
}

// TestEveryStateEnds: from each state there is a way to deleted, so nothing can be stuck.
func TestEveryStateEnds(t *testing.T) {
	t.Parallel()
	for _, s := range allStates {
		reached := map[State]bool{s: true}
		for grew := true; grew; {
			grew = false
			for _, row := range Transitions {
				if reached[row.From] && !reached[row.To] {
					reached[row.To], grew = true, true
				}
			}
		}
		assert.True(t, reached[Deleted], "no way from %s to deleted", s)
	}
}

func TestUnclaimedAndLive(t *testing.T) {
	t.Parallel()
	for _, s := range allStates {
		assert.Equal(t, s != Claimed && s != Deleted, Unclaimed(s), s)
		assert.Equal(t, s != Deleted, Live(s), s)
	}
	assert.False(t, Unclaimed("nonsense"))
	assert.False(t, Live(""))
}

// TestDocument keeps docs/STATE_MACHINE.md from drifting away from Transitions.
func TestDocument(t *testing.T) {
	t.Parallel()
	const path = "../../docs/STATE_MACHINE.md"
	const begin, end = "<!-- begin of transitions -->\n", "<!-- end of transitions -->\n"
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(raw), begin)
	require.True(t, found, "%s has lost its marker", path)
	_, tail, found := strings.Cut(rest, end)
	require.True(t, found, "%s has lost its marker", path)
	golden(t, path, head+begin+diagram()+"\n"+table()+end+tail)

	for _, s := range allStates {
		row := fmt.Sprintf("| %s | ", s)
		_, row, found = strings.Cut(head, row)
		require.True(t, found, "%s does not describe %s", path, s)
		row, _, _ = strings.Cut(row, "\n")
		require.Contains(t, row, fmt.Sprintf("| %s | %s |", yesNo(Unclaimed(s)), yesNo(Live(s))), s)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// diagram draws one arrow per pair of states, with all events between them.
func diagram() string {
	var order []edge
	events := make(map[edge][]string)
	for _, row := range Transitions {
		e := edge{row.From, row.To}
		if events[e] == nil {
			order = append(order, e)
		}
		if n := len(events[e]); n == 0 || events[e][n-1] != row.Event {
			events[e] = append(events[e], row.Event)
		}
	}
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, e := range order {
		from := string(e.from)
		if from == "" {
			from = "[*]"
		}
		fmt.Fprintf(&b, "    %s --> %s: %s\n", from, e.to, strings.Join(events[e], " / "))
	}
	b.WriteString("```\n")
	return b.String()
}

func table() string {
	var b strings.Builder
	b.WriteString("| from | event | guard | to | effect |\n| --- | --- | --- | --- | --- |\n")
	for _, row := range Transitions {
		from := string(row.From)
		if from == "" {
			from = "-"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", from, row.Event, row.Guard, row.To, row.Effect)
	}
	return b.String()
}
