package auth

import "github.com/prewarm-dev/prewarm/database"

// Action is one thing that somebody may or may not do. Its name is resource.verb, as in the audit log.
type Action string

const (
	ActReadSelf Action = "self.read"
	ActLogin    Action = "self.login"

	ActReadPresets  Action = "preset.read"
	ActNudgePreset  Action = "preset.nudge"
	ActResetPreset  Action = "preset.reset"
	ActInvalidate   Action = "preset.invalidate" // replace all unclaimed prebuilds (C15)
	ActReadPauses   Action = "pause.read"
	ActWritePauses  Action = "pause.write"
	ActReadReplicas Action = "replica.read"
	ActReadAudit    Action = "audit.read"

	ActReadProviders  Action = "provider.read"
	ActApplyProvider  Action = "provider.apply" // what it is, which is what its workspaces can reach: roots, binds, executables
	ActDeleteProvider Action = "provider.delete"
	ActCheckProvider  Action = "provider.check" // makes workspaces at it, and deletes them

	ActResumeProvider  Action = "provider.resume"  // close its breaker
	ActConfirmProvider Action = "provider.confirm" // let orphans be deleted there

	ActReadForges   Action = "forge.read" // also their credentials without secrets, their jobs and runners
	ActWriteForges  Action = "forge.write"
	ActResealForges Action = "forge.reseal" // with another encryption key

	ActReadTemplates     Action = "template.read"
	ActApply             Action = "template.apply"
	ActPlan              Action = "template.plan"
	ActRollBack          Action = "template.rollback"
	ActDeprecateTemplate Action = "template.deprecate"
	ActDeleteTemplate    Action = "template.delete"

	ActCreateClaim      Action = "claim.create"
	ActReadWorkspace    Action = "workspace.read"
	ActEnterWorkspace   Action = "workspace.enter" // exec, logs and environment: what is inside, not only that it exists
	ActUseWorkspace     Action = "workspace.use"   // the data plane: processes in what one has claimed oneself
	ActReleaseWorkspace Action = "workspace.release"
	ActRenewLease       Action = "workspace.renew"
	ActDeleteWorkspace  Action = "workspace.delete"
	ActRetryWorkspace   Action = "workspace.retry" // of a quarantined one
	ActKeepWorkspace    Action = "workspace.keep"  // in quarantine, to look into it
	ActForceWorkspace   Action = "workspace.force" // delete whatever the provider says (G5)
	ActAbandonRunner    Action = "runner.abandon"  // delete without the forge's word (P7)

	ActReadQuotas Action = "quota.read"
	ActSetQuota   Action = "quota.set"

	ActReadTokens   Action = "token.read"
	ActCreateToken  Action = "token.create"
	ActRevokeToken  Action = "token.revoke"
	ActManageOthers Action = "user.manage" // users, and tokens for them

	ActReadSigningKeys  Action = "signing-key.read"
	ActRotateSigningKey Action = "signing-key.rotate"

	ActReadNotifications Action = "notification.read"
	ActTestNotification  Action = "notification.test"

	// What workspaces do, by instance tokens; no role does these.
	ActReportInstance Action = "instance.report"
	ActReadInstance   Action = "instance.read"
	ActTunnelInstance Action = "instance.tunnel"
)

// Part is how far a role reaches in an action.
type Part int

const (
	None Part = iota
	Own       // what belongs to oneself
	Any
)

type parts map[database.Role]Part

// policy is the only place that says who may do what. What is not in it is forbidden.
var policy = map[Action]parts{
	ActReadSelf: everybody,
	ActLogin:    everybody,

	ActReadPresets:  everybody,
	ActNudgePreset:  admins(None),
	ActResetPreset:  admins(None),
	ActInvalidate:   admins(None),
	ActReadPauses:   auditors(None),
	ActWritePauses:  admins(None),
	ActReadReplicas: auditors(None),
	ActReadAudit:    {database.RoleOwner: Any, database.RoleAuditor: Any},

	ActReadProviders:  auditors(None),
	ActApplyProvider:  owners(None),
	ActDeleteProvider: owners(None),
	ActCheckProvider:  admins(None),

	ActResumeProvider:  admins(None),
	ActConfirmProvider: admins(None),

	ActReadForges:   auditors(None),
	ActWriteForges:  admins(None),
	ActResealForges: owners(None),

	ActReadTemplates:     everybody,
	ActApply:             admins(None),
	ActPlan:              admins(None),
	ActRollBack:          admins(None),
	ActDeprecateTemplate: admins(None),
	ActDeleteTemplate:    admins(None),

	ActCreateClaim:      admins(Any),
	ActReadWorkspace:    auditors(Own),
	ActEnterWorkspace:   admins(Own),
	ActUseWorkspace:     {database.RoleOwner: Own, database.RoleTemplateAdmin: Own, database.RoleMember: Own},
	ActReleaseWorkspace: admins(Own),
	ActRenewLease:       admins(Own),
	ActDeleteWorkspace:  admins(Own),
	ActRetryWorkspace:   admins(Own),
	ActKeepWorkspace:    admins(Own),
	ActForceWorkspace:   owners(None),
	ActAbandonRunner:    owners(None),

	ActReadQuotas: auditors(Any),
	ActSetQuota:   owners(None),

	ActReadTokens: {
		database.RoleOwner: Any, database.RoleAuditor: Any, database.RoleTemplateAdmin: Own, database.RoleMember: Own,
	},
	ActCreateToken:  owners(Own),
	ActRevokeToken:  owners(Own),
	ActManageOthers: owners(None),

	ActReadSigningKeys:  {database.RoleOwner: Any, database.RoleAuditor: Any},
	ActRotateSigningKey: owners(None),

	ActReadNotifications: auditors(None),
	ActTestNotification:  admins(None),

	ActReportInstance: {},
	ActReadInstance:   {},
	ActTunnelInstance: {},
}

// everybody is all people.
var everybody = parts{
	database.RoleOwner: Any, database.RoleTemplateAdmin: Any, database.RoleMember: Any, database.RoleAuditor: Any,
}

// admins gives owners and template admins everything, members what is said, auditors nothing: they change nothing.
func admins(member Part) parts {
	return parts{database.RoleOwner: Any, database.RoleTemplateAdmin: Any, database.RoleMember: member}
}

// auditors is admins with auditors: for what is only read.
func auditors(member Part) parts {
	p := admins(member)
	p[database.RoleAuditor] = Any
	return p
}

// owners gives owners everything, template admins and members what is said.
func owners(others Part) parts {
	return parts{database.RoleOwner: Any, database.RoleTemplateAdmin: others, database.RoleMember: others}
}

// PartOf says how far a role reaches in an action.
func PartOf(role database.Role, action Action) Part { return policy[action][role] }

// Actions lists all there are, in no order.
func Actions() []Action {
	actions := make([]Action, 0, len(policy))
	for a := range policy {
		actions = append(actions, a)
	}
	return actions
}
