package prebuilds

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestByPreset deals the workspaces of three presets like cards, and adds a stray.
func TestByPreset(t *testing.T) {
	t.Parallel()
	var s Snapshot
	for n := range 3 {
		s.Presets = append(s.Presets, Preset{ID: numbered(n)})
	}
	for n := range 20 {
		s.Workspaces = append(s.Workspaces, Workspace{ID: numbered(100 + n), PresetID: numbered(n % 2)})
	}
	s.Workspaces = append(s.Workspaces, Workspace{ID: numbered(200), PresetID: numbered(99)})

	groups := s.ByPreset()
	require.Len(t, groups, 3, "two presets with workspaces, and the strays")
	for n := range 2 {
		require.Len(t, groups[numbered(n)], 10)
		for i, w := range groups[numbered(n)] {
			assert.Equal(t, numbered(100+2*i+n), w.ID, "in the order of the snapshot")
		}
	}
	assert.Equal(t, s.Workspaces[20:], groups[numbered(99)])

	// What is appended to one group must not run into the next.
	_ = append(groups[numbered(0)], Workspace{})
	assert.Equal(t, numbered(101), groups[numbered(1)][0].ID)

	errs := s.Strays(groups)
	require.Len(t, errs, 1)
	assert.ErrorContains(t, errs[numbered(99)], "1 workspace of preset "+numbered(99).String())
}

// TestDecideGoesOn: one preset's error stops no other.
func TestDecideGoesOn(t *testing.T) {
	t.Parallel()
	good, bad := newPool(2).add(1, Ready), newPool(-1)
	bad.preset.ID = numbered(0xb)
	s := Snapshot{
		Now:        noon,
		Presets:    []Preset{bad.preset, good.preset},
		Workspaces: append(good.workspaces, Workspace{ID: numbered(50), PresetID: numbered(99), State: Ready}),
		Providers:  map[string]Limits{"sim": {Chunk: 10}},
	}
	plans, errs, _ := s.Decide()
	require.Len(t, plans, 2)
	assert.Nil(t, plans[0])
	assert.Equal(t, presetID, plans[1].PresetID)
	assert.Equal(t, 1, plans[1].Create)
	require.Len(t, errs, 2)
	assert.ErrorContains(t, errs[bad.preset.ID], "negative")
	assert.ErrorContains(t, errs[numbered(99)], "but not the preset")
}

// TestGlobalPause: C10. It stops every preset, and comes before a preset's own pause.
func TestGlobalPause(t *testing.T) {
	t.Parallel()
	pool := newPool(2).with(paused)
	s := Snapshot{
		Now: noon, Presets: []Preset{pool.preset}, Pauses: Pauses{{Scope: PauseGlobal}: {Reason: "database upgrade"}},
		Providers: map[string]Limits{"sim": {Chunk: 10}},
	}
	plans, errs, _ := s.Decide()
	require.Empty(t, errs)
	assert.Zero(t, plans[0].Create)
	assert.Contains(t, plans[0].String(), "paused: database upgrade (C10)")
}

func TestEmptySnapshot(t *testing.T) {
	t.Parallel()
	plans, errs, _ := Snapshot{}.Decide()
	assert.Empty(t, plans)
	assert.Empty(t, errs)
	assert.Equal(t, map[uuid.UUID][]Workspace{}, Snapshot{}.ByPreset())
}
