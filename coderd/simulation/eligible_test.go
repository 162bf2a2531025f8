//go:build !race

package simulation

import (
	"maps"
	"time"

	"github.com/google/uuid"
)

// lookout is a claim that will not wait, and the workspaces that were eligible at each instant since it was asked for. If
// one is left when it is answered with a miss, the miss was not clear (DESIGN section 6).
type lookout struct {
	preset uuid.UUID
	left   map[uuid.UUID]int32 // incarnation by workspace
}

// eligibleFor is how long a workspace must live on to count, since the clock jumps.
const eligibleFor = 30 * time.Second

func (m *model) watch(preset uuid.UUID) *lookout {
	l := &lookout{preset: preset, left: m.eligible(preset)}
	m.lookouts[l] = true
	return l
}

func (m *model) eligible(id uuid.UUID) map[uuid.UUID]int32 {
	p, ok := m.now.presets[id]
	found := map[uuid.UUID]int32{}
	if !ok || p.retired {
		return found
	}
	for _, ws := range m.now.workspaces {
		if ws.preset == id && ws.state == "ready" && ws.key == p.key &&
			(ws.expires == nil || ws.expires.After(m.w.now().Add(eligibleFor))) {
			found[ws.id] = ws.incarnation
		}
	}
	return found
}

// narrow takes out what is not eligible any more.
func (m *model) narrow() {
	for l := range m.lookouts {
		now := m.eligible(l.preset)
		maps.DeleteFunc(l.left, func(id uuid.UUID, incarnation int32) bool {
			current, ok := now[id]
			return !ok || current != incarnation
		})
	}
}

// missed is told that a claim was answered with a miss.
func (m *model) missed(l *lookout, key string) {
	switch {
	case len(l.left) == 0:
		m.w.fired("clear miss")
	case key == "": // one with a key may be told that what it was given has gone
		m.w.violate("claims", "a claim was answered with a miss, though %d were eligible all the while", len(l.left))
	}
}
