package auth

import "github.com/prewarm-dev/prewarm/database"

// words are what an action is to a person: what follows "cannot".
var words = map[Action]string{
	ActReadSelf: "view its own account", ActLogin: "log in",
	ActReadPresets: "view presets", ActNudgePreset: "nudge a preset", ActResetPreset: "reset the failures of a preset",
	ActInvalidate: "invalidate the prebuilds of a preset", ActReadPauses: "view pauses", ActWritePauses: "pause or resume pools",
	ActReadReplicas: "view replicas", ActReadAudit: "view the audit log",
	ActReadProviders: "view providers", ActApplyProvider: "create or change a provider", ActCheckProvider: "check a provider",
	ActDeleteProvider: "delete a provider", ActResumeProvider: "resume a provider", ActConfirmProvider: "confirm a provider",
	ActReadForges: "view forges", ActWriteForges: "change forges", ActResealForges: "reseal secrets",
	ActReadTemplates: "view templates", ActApply: "apply a file", ActPlan: "plan a change", ActRollBack: "roll back a template",
	ActDeprecateTemplate: "deprecate a template", ActDeleteTemplate: "delete a template",
	ActCreateClaim: "claim a workspace", ActReadWorkspace: "view workspaces", ActEnterWorkspace: "enter a workspace",
	ActReleaseWorkspace: "release a workspace", ActRenewLease: "renew the lease of a workspace",
	ActDeleteWorkspace: "delete a workspace", ActRetryWorkspace: "retry a workspace", ActKeepWorkspace: "keep a workspace",
	ActForceWorkspace: "force the deletion of a workspace", ActAbandonRunner: "abandon a runner",
	ActReadQuotas: "view quotas", ActSetQuota: "set quotas",
	ActReadTokens: "view tokens", ActCreateToken: "create tokens", ActRevokeToken: "revoke tokens",
	ActManageOthers:    "manage other users and their tokens",
	ActReadSigningKeys: "view signing keys", ActRotateSigningKey: "rotate the signing key",
	ActReadNotifications: "view notifications", ActTestNotification: "send a test notification",
	ActReportInstance: "report for a workspace", ActReadInstance: "read the configuration of a workspace",
	ActTunnelInstance: "open the tunnel of a workspace", ActUseWorkspace: "run processes in a workspace",
}

// Cannot says in a sentence that a role does not have an action.
func Cannot(role database.Role, action Action) string {
	what := words[action]
	if what == "" { // never in a release: TestWords
		what = "do " + string(action)
	}
	return "Your role (" + string(role) + ") cannot " + what
}
