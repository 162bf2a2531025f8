package prebuilds

// What watchers ask a stored ledger. The ledger is the truth of the last plan, so that what is alarmed about is what
// people are shown.

// Going is how many workspaces the plan wanted gone: what it drains and what it cancels.
func (l Ledger) Going() int {
	n := 0
	for _, line := range l.Drains {
		if line.Label == string(Drain) || line.Label == string(Cancel) {
			n += line.Count
		}
	}
	return n
}

// ForgeStopped is the reason why no runners are made, where that is a person's stop of their forge; no code where it is not.
func (l Ledger) ForgeStopped() Reason {
	for _, line := range l.Creates {
		if line.Code == ForgeStopped || line.Code == ForgeDrained {
			return line.Reason
		}
	}
	return Reason{}
}

// HardLimit is why creation stopped for good (C8), if it did.
func (l Ledger) HardLimit() (why Reason, stopped bool) {
	for _, line := range l.Creates {
		if line.Code == HardLimited {
			return line.Reason, true
		}
	}
	return Reason{}, false
}
