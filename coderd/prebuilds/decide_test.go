package prebuilds

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestDecide_asInParallel: deciding presets each by itself, in any order and at once, and clamping the plans then, gives what
// Decide gives: every plan, what is held back by chunks, and RetryAt.
func TestDecide_asInParallel(t *testing.T) {
	t.Parallel()
	draw := rapid.Custom(drawPool)
	again, shrinks, paused, machines := 0, 0, 0, 0
	for seed := range 400 {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		s := Snapshot{Now: noon, Pauses: Pauses{}, Providers: map[string]Limits{
			"sim":   {Chunk: 1 + random.IntN(5), Maximum: 40 * random.IntN(2), Live: random.IntN(30)},
			"fleet": {Chunk: 100, Reserves: true, Available: random.IntN(9)},
		}}
		for n := range 1 + random.IntN(6) {
			p := draw.Example(10*seed + n)
			p.preset.ID, p.preset.TemplateID = numbered(1000+n), numbered(2000+n/2)
			if p.preset.AllMachines = random.IntN(4) == 0; p.preset.AllMachines {
				p.preset.Provider = "fleet"
			}
			if random.IntN(4) == 0 { // of which there is a surplus
				p.preset.Runner, p.preset.Desired, p.preset.Waiting, p.preset.Cold = &Runner{}, 0, 0, nil
			}
			for _, key := range []PauseKey{
				{PauseProvider, "sim"}, {PauseTemplate, p.preset.TemplateID.String()}, {PausePreset, p.preset.ID.String()}, {PauseGlobal, ""},
			} {
				if random.IntN(25) == 0 {
					s.Pauses[key] = Pause{Reason: string(key.Scope), Until: noon.Add(time.Hour)}
				}
			}
			s.Presets = append(s.Presets, p.preset)
			for i := range p.workspaces {
				p.workspaces[i].ID, p.workspaces[i].PresetID = numbered(10_000+100*n+i), p.preset.ID
			}
			s.Workspaces = append(s.Workspaces, p.workspaces...)
		}
		want, errs, left := s.Decide()
		require.Empty(t, errs)

		groups, plans := s.ByPreset(), make([]*Plan, len(s.Presets))
		var all sync.WaitGroup
		for _, i := range random.Perm(len(s.Presets)) {
			all.Go(func() {
				if plan, err := s.DecidePreset(s.Presets[i], groups[s.Presets[i].ID]); err == nil {
					plans[i] = &plan
				}
			})
		}
		all.Wait()
		require.Equal(t, left, Clamp(plans, s.Providers))
		require.Equal(t, want, plans)
		for i, plan := range want {
			if plan.Again {
				again++
			}
			if at, now := plan.Shrinks(noon); now {
				shrinks++
				require.False(t, plan.RetryAt.After(at), "the next half of a surplus")
			}
			if plan.Preset.Pause != "" {
				paused++
				first := ""
				for _, key := range []PauseKey{
					{PauseGlobal, ""},
					{PausePreset, plan.PresetID.String()},
					{PauseTemplate, plan.Preset.TemplateID.String()},
					{PauseProvider, plan.Preset.Provider},
				} {
					if pause, ok := s.Pauses[key]; ok && first == "" {
						first = pause.Reason
					}
				}
				if first != "" {
					require.Equal(t, first, plan.Preset.Pause)
				}
				require.Zero(t, plan.Create)
			}
			if s.Presets[i].AllMachines && plan.Preset.Retired == "" {
				machines++
				require.GreaterOrEqual(t, plan.Preset.Desired, plan.Counts.Actual+plan.Counts.Starting)
			}
		}
	}
	for what, n := range map[string]int{"again": again, "shrinks": shrinks, "paused": paused, "machines": machines} {
		require.Greater(t, n, 10, "too few plans with %s", what)
	}
}

// A preset whose row cannot be read is an error of that preset; nothing is decided about it.
func TestDecidePreset_fault(t *testing.T) {
	t.Parallel()
	p := newPool(1).preset
	p.Fault = &ScheduleError{-1, "unknown timezone"}
	_, errs, _ := Snapshot{Now: noon, Presets: []Preset{p}}.Decide()
	require.Equal(t, map[uuid.UUID]error{p.ID: p.Fault}, errs)
}

// C8: an outage only spaces creates, until it has lasted too long or what fails is not of its kind.
func TestMayPass(t *testing.T) {
	t.Parallel()
	require.True(t, MayPass(HardLimit-1, noon, noon.Add(MayPassFor-1)))
	require.False(t, MayPass(HardLimit, noon, noon))
	require.False(t, MayPass(0, noon, noon.Add(MayPassFor)))
}
