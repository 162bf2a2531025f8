package explain

import (
	"fmt"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Why a claim is a miss. TemplateDeprecated, ProviderDeleted and CreatesFail of the planner are others.
const (
	MissGone         prebuilds.Code = "pool_gone"
	MissNoPool       prebuilds.Code = "no_prebuilds_block"
	MissScaledToZero prebuilds.Code = "scaled_to_zero"
	MissStarting     prebuilds.Code = "all_starting"
	MissNoneReady    prebuilds.Code = "none_ready"
	MissClientGone   prebuilds.Code = "client_gone"
	MissWaitEnded    prebuilds.Code = "wait_ended" // set by queries/claim/claims.sql, for waiters whose replica died
	MissHook         prebuilds.Code = "on_claim_failed"
	MissUsedAgain    prebuilds.Code = "key_used_again"
	MissLongGone     prebuilds.Code = "key_long_gone"
)

// PoolAtMiss is what a pool looked like to a claim that found nothing warm.
type PoolAtMiss struct {
	Gone, Deprecated bool
	ProviderDeleted  bool
	Pool             bool // it has a prebuilds block
	Desired          int
	Starting         int
	Asked, Ready     int // where several were asked for, all or none
	Failures         int // of creates, in a row
	Fault            string
}

// Miss says why a claim found nothing warm.
func Miss(m PoolAtMiss) Said {
	none := "no prebuild is ready"
	if m.Asked > 1 && m.Ready > 0 {
		none = fmt.Sprintf("%d of %d ready", m.Ready, m.Asked)
	}
	switch {
	case m.Gone:
		return Said{MissGone, "the preset or its template was deleted"}
	case m.Deprecated:
		return Said{prebuilds.TemplateDeprecated, "the template is deprecated"}
	case m.ProviderDeleted:
		return Said{prebuilds.ProviderDeleted, "the provider of the template is deleted"}
	case m.Failures > 0 && m.Fault != "":
		return Said{prebuilds.CreatesFail, none + ", and " + lastFailed(m.Failures, m.Fault)}
	case !m.Pool:
		return Said{MissNoPool, "the preset keeps no prebuilds"}
	case m.Desired == 0:
		return Said{MissScaledToZero, "the preset is scaled to 0"}
	case m.Starting > 0:
		return Said{MissStarting, fmt.Sprintf("%s, %d starting", none, m.Starting)}
	}
	return Said{MissNoneReady, none}
}
