package auth

import (
	"maps"
	"slices"

	"github.com/prewarm-dev/prewarm/database"
)

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
	ActUseWorkspace     Action = "workspace.use"   // the data plane: processes and files in what one has claimed oneself
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

	// What runs of Terraform do, by tokens of their own; no role does these.
	ActReadState  Action = "state.read"
	ActWriteState Action = "state.write" // also its lock
)

// Part is how far a role reaches in an action.
type Part int

const (
	None Part = iota
	Own       // what belongs to oneself
	Any
)

type parts map[database.Role]Part

// policy is the only place that says who may do what, and what an action is to a person: the words follow "cannot". What is not
// in it is forbidden.
var policy = map[Action]struct {
	parts
	words string
}{
	ActReadSelf: {everybody, "view its own account"},
	ActLogin:    {everybody, "log in"},

	ActReadPresets:  {everybody, "view presets"},
	ActNudgePreset:  {admins(None), "nudge a preset"},
	ActResetPreset:  {admins(None), "reset the failures of a preset"},
	ActInvalidate:   {admins(None), "invalidate the prebuilds of a preset"},
	ActReadPauses:   {auditors(None), "view pauses"},
	ActWritePauses:  {admins(None), "pause or resume pools"},
	ActReadReplicas: {auditors(None), "view replicas"},
	ActReadAudit:    {parts{database.RoleOwner: Any, database.RoleAuditor: Any}, "view the audit log"},

	ActReadProviders:  {auditors(None), "view providers"},
	ActApplyProvider:  {owners(None), "create or change a provider"},
	ActDeleteProvider: {owners(None), "delete a provider"},
	ActCheckProvider:  {admins(None), "check a provider"},

	ActResumeProvider:  {admins(None), "resume a provider"},
	ActConfirmProvider: {admins(None), "confirm a provider"},

	ActReadForges:   {auditors(None), "view forges"},
	ActWriteForges:  {admins(None), "change forges"},
	ActResealForges: {owners(None), "reseal secrets"},

	ActReadTemplates:     {everybody, "view templates"},
	ActApply:             {admins(None), "apply a file"},
	ActPlan:              {admins(None), "plan a change"},
	ActRollBack:          {admins(None), "roll back a template"},
	ActDeprecateTemplate: {admins(None), "deprecate a template"},
	ActDeleteTemplate:    {admins(None), "delete a template"},

	ActCreateClaim:      {admins(Any), "claim a workspace"},
	ActReadWorkspace:    {auditors(Own), "view workspaces"},
	ActEnterWorkspace:   {admins(Own), "enter a workspace"},
	ActUseWorkspace:     {parts{database.RoleOwner: Own, database.RoleTemplateAdmin: Own, database.RoleMember: Own}, "run processes in a workspace"},
	ActReleaseWorkspace: {admins(Own), "release a workspace"},
	ActRenewLease:       {admins(Own), "renew the lease of a workspace"},
	ActDeleteWorkspace:  {admins(Own), "delete a workspace"},
	ActRetryWorkspace:   {admins(Own), "retry a workspace"},
	ActKeepWorkspace:    {admins(Own), "keep a workspace"},
	ActForceWorkspace:   {owners(None), "force the deletion of a workspace"},
	ActAbandonRunner:    {owners(None), "abandon a runner"},

	ActReadQuotas: {auditors(Any), "view quotas"},
	ActSetQuota:   {owners(None), "set quotas"},

	ActReadTokens:   {parts{database.RoleOwner: Any, database.RoleAuditor: Any, database.RoleTemplateAdmin: Own, database.RoleMember: Own}, "view tokens"},
	ActCreateToken:  {owners(Own), "create tokens"},
	ActRevokeToken:  {owners(Own), "revoke tokens"},
	ActManageOthers: {owners(None), "manage other users and their tokens"},

	ActReadSigningKeys:  {parts{database.RoleOwner: Any, database.RoleAuditor: Any}, "view signing keys"},
	ActRotateSigningKey: {owners(None), "rotate the signing key"},

	ActReadNotifications: {auditors(None), "view notifications"},
	ActTestNotification:  {admins(None), "send a test notification"},

	ActReportInstance: {parts{}, "report for a workspace"},
	ActReadInstance:   {parts{}, "read the configuration of a workspace"},
	ActTunnelInstance: {parts{}, "open the tunnel of a workspace"},

	ActReadState:  {parts{}, "read the Terraform state of a workspace"},
	ActWriteState: {parts{}, "write the Terraform state of a workspace"},
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
func PartOf(role database.Role, action Action) Part { return policy[action].parts[role] }

// Cannot says in a sentence that a role does not have an action.
func Cannot(role database.Role, action Action) string {
	return "Your role (" + string(role) + ") cannot " + policy[action].words
}

// Actions lists all there are, in no order.
func Actions() []Action {
	return slices.Collect(maps.Keys(policy))
}
