package prebuilds

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// noon is the instant of every test that does not move time.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// numbered is a uuid that sorts and reads by its number.
func numbered(n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

var (
	presetID   = numbered(0xa)
	currentKey = numbered(0xc)
	oldKey     = numbered(0xd)
)

// pool is a preset with its workspaces, built line by line. Each workspace is a minute younger than the one before.
type pool struct {
	preset     Preset
	workspaces []Workspace
}

func newPool(desired int) *pool {
	return &pool{preset: Preset{
		ID: presetID, Template: "go", Name: "default", Provider: "sim", PoolKey: currentKey, Desired: desired,
	}}
}

func (p *pool) with(change func(*Preset)) *pool {
	change(&p.preset)
	return p
}

func (p *pool) add(n int, s State, changes ...func(*Workspace)) *pool {
	for range n {
		number := len(p.workspaces) + 1
		w := Workspace{
			ID: numbered(number), PresetID: p.preset.ID, PoolKey: p.preset.PoolKey, Provider: p.preset.Provider, State: s,
			Incarnation: 1, CreatedAt: noon.Add(time.Duration(number-60) * time.Minute),
		}
		for _, change := range changes {
			change(&w)
		}
		p.workspaces = append(p.workspaces, w)
	}
	return p
}

func old(w *Workspace)        { w.PoolKey = oldKey }
func leased(w *Workspace)     { w.Leased = true }
func moving(w *Workspace)     { w.Moving = true }
func withIntent(w *Workspace) { w.HasIntent = true }
func expired(w *Workspace)    { w.ExpiresAt = noon }
func expires(at time.Duration) func(*Workspace) {
	return func(w *Workspace) { w.ExpiresAt = noon.Add(at) }
}

func (p *pool) plan() (Plan, error) { return MakePlan(p.preset, p.workspaces, noon) }

func mustSchedule(cron string, instances int) *Schedule {
	s, err := NewSchedule("UTC", []Range{{cron, instances}})
	if err != nil {
		panic(err)
	}
	return s
}

// String is the pool as a reader of a golden file sees it.
func (p *pool) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "desired %d, waiting %d\n", p.preset.Desired, p.preset.Waiting)
	if r := p.preset.Runner; r != nil {
		fmt.Fprintf(&b, "runners: %d jobs queued, %d busy, maximum %d\n", r.Queued, r.Busy, r.Maximum)
	}
	for _, w := range p.workspaces {
		fmt.Fprintf(&b, "workspace %s %s", w.ID, w.State)
		if w.Busy {
			b.WriteString(", at a job")
		}
		if w.PoolKey != p.preset.PoolKey {
			b.WriteString(", outdated")
		}
		if w.Leased {
			b.WriteString(", leased")
		}
		if w.HasIntent {
			b.WriteString(", with an intent")
		}
		if !w.ExpiresAt.IsZero() {
			fmt.Fprintf(&b, ", expires %s", w.ExpiresAt.Format(time.TimeOnly))
		}
		fmt.Fprintf(&b, ", created %s\n", w.CreatedAt.Format(time.TimeOnly))
	}
	return b.String()
}
