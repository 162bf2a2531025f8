package explain

import (
	"cmp"
	"fmt"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Pool is what decides whether somebody should look at a pool.
type Pool struct {
	Error    string // what the last pass could not do
	Ledger   prebuilds.Ledger
	Failures int    // of creates, in a row
	Fault    string // of the last of them
	Paused   string // why, if it is
	Waiting  int    // claims

	Desired, Ready, Outdated, Starting, Failed int
}

// AttentionCode names why somebody should look at a pool.
type AttentionCode string

const (
	PassFailed     AttentionCode = "pass_failed"
	RolloutStopped AttentionCode = "rollout_stopped"
	CreatesFailed  AttentionCode = "creates_failed"
	PoolPaused     AttentionCode = "paused"
	PoolStopped    AttentionCode = "forge_stopped"
	ClaimsWait     AttentionCode = "claims_waiting"
	PoolEmpty      AttentionCode = "empty"
	Inspection     AttentionCode = "kept_for_inspection"
)

// Attention is why somebody should look at a pool, in a sentence; no text where nobody has to.
type Attention struct {
	Code AttentionCode
	Bad  bool // it does not mend by itself
	Text string
}

// Attend is the worst that is wrong with a pool.
func Attend(p Pool) Attention {
	switch r := p.Ledger.Rollout; {
	case p.Error != "":
		return Attention{PassFailed, true, "The last pass could do nothing" + because(p.Error)}
	case r != nil && r.Phase == prebuilds.RolloutStopped:
		return Attention{RolloutStopped, true, "Rollout stopped: " + cmp.Or(RolloutReason(r), "the new version does not become ready")}
	case p.Failures == 1:
		return Attention{CreatesFailed, true, "A create failed" + cmp.Or(because(p.Fault), ".")}
	case p.Failures > 1:
		return Attention{CreatesFailed, true, fmt.Sprintf("Creates failed %d times in a row%s", p.Failures, cmp.Or(because(p.Fault), "."))}
	case p.Paused != "":
		return Attention{PoolPaused, false, "Paused: " + p.Paused}
	case p.Ledger.ForgeStopped().Code != "":
		return Attention{PoolStopped, false, "No new runners: " + Text(p.Ledger.ForgeStopped())}
	case p.Waiting == 1 && p.Ready == 0:
		return Attention{ClaimsWait, false, "A claim waits for a workspace."}
	case p.Waiting > 1 && p.Ready == 0:
		return Attention{ClaimsWait, false, fmt.Sprintf("%d claims wait for a workspace.", p.Waiting)}
	case p.Desired > 0 && p.Ready+p.Outdated+p.Starting == 0:
		why := "."
		if reasons := Reasons(p.Ledger); len(reasons) > 0 {
			why = because(reasons[0].Text)
		}
		return Attention{PoolEmpty, true, "Empty, and nothing is being built" + why}
	case p.Failed == 1:
		return Attention{Inspection, false, "One that failed is kept for inspection."}
	case p.Failed > 1:
		return Attention{Inspection, false, fmt.Sprintf("%d that failed are kept for inspection.", p.Failed)}
	}
	return Attention{}
}
