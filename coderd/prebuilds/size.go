package prebuilds

// Size is what a pool has outside of its schedule: what autosize computed, where it is in effect and up to date (below 0: it is
// not), and otherwise the preset's own instances. A schedule's entry comes before both (docs/decisions/0010).
func Size(instances, autosized int) int {
	if autosized >= 0 {
		return autosized
	}
	return instances
}
