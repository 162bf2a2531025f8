package prebuilds

// unused is how many machines creates may still take (S4). What a stale listing says is not counted on.
func (l Limits) unused() int {
	if l.Stale {
		return 0
	}
	return max(0, l.Available)
}

// without is what is left of the machines.
func (l Limits) without(n int) Limits {
	if l.Reserves {
		l.Available -= n
	}
	return l
}

func (l Limits) whyNoMachine(provider string) Reason {
	if l.Stale {
		return Reason{MachinesStale, Args{Provider: provider}}
	}
	return Reason{NoMachine, Args{Provider: provider}}
}

// allMachines is how many prebuilds a preset should have that takes in all there are (S4): those it has, and one on each
// machine that is available, up to the provider's maximum. It is never fewer than those it has, so that neither a maximum nor
// a listing that fails makes anything go.
func allMachines(ws []Workspace, l Limits) int {
	has := 0
	for i := range ws {
		w := &ws[i]
		if !w.HasIntent && (w.settled() || w.State == Provisioning || w.State == Starting) {
			has++
		}
	}
	room := l.unused()
	if l.Maximum > 0 {
		room = min(room, max(0, l.Maximum-l.Live))
	}
	return has + room
}
