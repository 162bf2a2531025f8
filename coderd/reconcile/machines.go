package reconcile

import (
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
)

// takeAll says of the presets with `instances: all` how many that is by this snapshot (S4).
func (s *snapshot) takeAll(rows []database.SnapshotPresetsRow) {
	all := map[uuid.UUID][]prebuilds.Workspace{}
	for _, row := range rows {
		if row.AllMachines {
			all[row.ID] = nil
		}
	}
	if len(all) == 0 {
		return
	}
	for _, w := range s.Workspaces {
		if _, takes := all[w.PresetID]; takes {
			all[w.PresetID] = append(all[w.PresetID], w)
		}
	}
	for i := range s.Presets {
		p := &s.Presets[i]
		if ws, takes := all[p.ID]; takes && p.Retired == "" {
			p.Desired = prebuilds.AllMachines(ws, s.Providers[p.Provider])
			s.byID[p.ID] = *p
		}
	}
}
