package prebuilds

import "strings"

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

// HardLimit is why creation stopped for good (C8), in the ledger's words; empty if it did not.
func (l Ledger) HardLimit() string {
	for _, line := range l.Creates {
		if line.Label == "held back" && line.Rule == "C8" && strings.HasPrefix(line.Reason, "hard limit") {
			return line.Reason
		}
	}
	return ""
}
