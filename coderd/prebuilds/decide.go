package prebuilds

import "github.com/google/uuid"

// DecidePreset makes the plan of one preset of the snapshot, given its group of workspaces: everything but the limits that
// presets share, which Clamp spends. Presets may be decided in parallel.
func (s Snapshot) DecidePreset(p Preset, ws []Workspace) (Plan, error) {
	if p.Fault != nil {
		return Plan{}, p.Fault
	}
	if pause, ok := s.Pauses.of(&p); ok {
		p.Pause, p.PauseUntil = pause.Reason, pause.Until
	}
	if p.AllMachines && p.Retired == "" {
		p.Desired = allMachines(ws, s.Providers[p.Provider])
	}
	plan, err := MakePlan(p, ws, s.Now)
	if err != nil {
		return Plan{}, err
	}
	// The next half of a surplus goes by the rows that this plan makes, not by those that it was made of.
	at, _ := plan.Shrinks(s.Now)
	plan.retryAt(at)
	return plan, nil
}

// Decide decides on the whole snapshot, as a pass does in parallel: a clamped plan per preset in the order of Presets, nil where
// it has none; an error per preset that has none and per group of strays; and what is left of the limits.
func (s Snapshot) Decide() (plans []*Plan, errs map[uuid.UUID]error, left map[string]Limits) {
	groups := s.ByPreset()
	errs = s.Strays(groups)
	plans = make([]*Plan, len(s.Presets))
	for i, p := range s.Presets {
		if plan, err := s.DecidePreset(p, groups[p.ID]); err != nil {
			errs[p.ID] = err
		} else {
			plans[i] = &plan
		}
	}
	return plans, errs, Clamp(plans, s.Providers)
}
