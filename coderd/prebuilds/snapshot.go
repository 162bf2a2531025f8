package prebuilds

import (
	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// ByPreset groups the workspaces by their preset, each in the order of the snapshot. Nothing is dropped: a key that is
// no preset of the snapshot holds strays (see Strays). The groups share one array and must not be appended to.
func (s Snapshot) ByPreset() map[uuid.UUID][]Workspace {
	// Counted first, then laid out, because growing a thousand slices copies every row several times.
	ends := make(map[uuid.UUID]*int, len(s.Presets))
	var order []uuid.UUID
	for i := range s.Workspaces {
		id := s.Workspaces[i].PresetID
		n, ok := ends[id]
		if !ok {
			n = new(int)
			ends[id] = n
			order = append(order, id)
		}
		*n++
	}
	all := make([]Workspace, len(s.Workspaces))
	groups := make(map[uuid.UUID][]Workspace, len(ends))
	start := 0
	for _, id := range order {
		n := *ends[id]
		groups[id] = all[start : start+n : start+n]
		*ends[id] = start
		start += n
	}
	for i := range s.Workspaces {
		next := ends[s.Workspaces[i].PresetID]
		all[*next] = s.Workspaces[i]
		*next++
	}
	return groups
}

// Strays are the groups of ByPreset that belong to no preset of the snapshot, each as an error. Nothing is decided
// about their workspaces.
func (s Snapshot) Strays(groups map[uuid.UUID][]Workspace) map[uuid.UUID]error {
	known := make(map[uuid.UUID]bool, len(s.Presets))
	for i := range s.Presets {
		known[s.Presets[i].ID] = true
	}
	errs := make(map[uuid.UUID]error)
	for id, ws := range groups {
		if !known[id] {
			errs[id] = xerrors.Errorf("snapshot has %s of preset %s, but not the preset",
				Plural(len(ws), "workspace"), id)
		}
	}
	return errs
}
