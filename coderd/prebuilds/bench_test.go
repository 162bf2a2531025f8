package prebuilds

import (
	"fmt"
	"testing"
	"time"
)

// benchSnapshot has so many presets with so many workspaces each, in the order in which a table would give them: mixed.
func benchSnapshot(presets, each, desired int, current func(n int) bool) Snapshot {
	s := Snapshot{Now: noon, Providers: map[string]Limits{"sim": {Chunk: 1000}}}
	for n := range presets {
		s.Presets = append(s.Presets, Preset{
			ID: numbered(n), Template: "go", Name: fmt.Sprint("p", n), Provider: "sim", PoolKey: currentKey,
			Desired: desired,
		})
	}
	for i := range each {
		for n := range presets {
			w := Workspace{
				ID: numbered(i*presets + n), PresetID: numbered(n), PoolKey: oldKey, Provider: "sim", State: Ready,
				Incarnation: 1, ExpiresAt: noon.Add(time.Hour),
				CreatedAt: noon.Add(-time.Duration(i*7919%each) * time.Second),
			}
			if current(i) {
				w.PoolKey = currentKey
			}
			s.Workspaces = append(s.Workspaces, w)
		}
	}
	return s
}

// BenchmarkDecide plans 1,000 presets of 100: at rest, as almost every pass finds them, and with a new version of
// every preset half way: 25 of each go, 25 are kept, 25 are to be created, and the chunk leaves 1 each.
func BenchmarkDecide(b *testing.B) {
	for _, bc := range []struct {
		name    string
		desired int
		current func(n int) bool
	}{
		{"steady", 100, func(int) bool { return true }},
		{"rollout", 75, func(n int) bool { return n%2 == 0 }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := benchSnapshot(1000, 100, bc.desired, bc.current)
			b.ReportAllocs()
			for b.Loop() {
				if plans, errs, _ := s.Decide(); len(plans) != 1000 || len(errs) != 0 {
					b.Fatal(len(plans), errs)
				}
			}
		})
	}
}
