package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceShowCommand() *cobra.Command {
	return newCommand("show WORKSPACE", "Show one workspace and its history",
		`Shows one workspace: where and whose it is, and the work under way on it. It shows every state the
workspace was in, with how long, who caused it and why. Of one that failed, where its template keeps failures, it
shows the end of its output.`,
		"  prewarm workspace show prebuild-aebagbafaydqqcikbmga2",
		show(a, (*sdk.Client).Workspace, func(w sdk.Workspace) string {
			return a.workspaceDetails(w) + a.timelineText(w) + faultText(w) + evidenceText(w)
		}))
}

func (a *app) workspaceDetails(w sdk.Workspace) string {
	t := a.newTable()
	t.add("Workspace", w.Name)
	t.add("ID", w.ID)
	t.add("Preset", w.Template+"/"+w.Preset)
	t.add("Version", w.Version)
	t.add("Organization", w.Organization)
	t.add("State", stateCell(w.State))
	t.add("Since", a.ago(w.StateAt))
	t.add("Owner", w.Owner)
	if w.ClaimID != nil {
		t.add("Claim", *w.ClaimID)
	}
	t.add("Provider", w.Provider)
	t.addIf("Provider id", w.ProviderID)
	t.addIf("Site", w.Site)
	t.addIf("System", strings.TrimSpace(w.OSName+" "+w.OSVersion))
	if w.Incarnation > 1 {
		t.add("Incarnation", w.Incarnation)
	}
	t.addAccess(w.Addresses, w.Environment)
	t.addOpen(w.Open)
	t.addIf("Parameters", pairs(w.Parameters))
	t.addIf("Made of", strings.Join(w.Resources, ", "))
	t.addIf("Drift", a.driftCell(w.Drift))
	t.addIf("Fault", cell{printable.Headline(w.Fault), red})
	t.add("Created", a.ago(w.CreatedAt))
	t.addIf("Ready", a.agoOr(w.ReadyAt, ""))
	t.addIf("Claimed", a.agoOr(w.ClaimedAt, ""))
	t.addIf("Lease ends", a.agoOr(w.LeaseUntil, ""))
	t.addIf("Applied for its owner", w.Handover)
	t.addIf("Receipt", receiptText(w.Receipt))
	t.addIf("Expires", a.agoOr(w.ExpiresAt, ""))
	t.addIf("Deleted", a.agoOr(w.DeletedAt, ""))
	if j := w.Job; j != nil {
		t.add("Job", fmt.Sprintf("%s, %s, attempt %d, %d failed", j.Kind, j.State, j.Attempt, j.Failures))
		t.addIf("Leased by", j.LeasedBy)
		t.addIf("Last error", printable.Headline(j.LastError))
	}
	if g := w.Agent; g != nil {
		a.agentDetails(t, *g)
	}
	return t.String()
}

// driftCell says what of a workspace is not as its state says, and when somebody looked.
func (a *app) driftCell(d *sdk.Drift) cell {
	var said []string
	c := cell{}
	if d == nil {
		return c
	}
	if d.LookedAt != nil {
		what := "none"
		if len(d.Resources) > 0 {
			what, c.style = strings.Join(d.Resources, ", "), yellow
		}
		said = append(said, what+", looked at "+a.ago(*d.LookedAt))
	}
	if d.Error != "" {
		said, c.style = append(said, "the last look failed: "+printable.Headline(d.Error)), yellow
	}
	c.text = strings.Join(said, "; ")
	return c
}

// addAccess appends what it takes to enter a workspace.
func (t *table) addAccess(addresses []sdk.Address, environment map[string]string) {
	for _, address := range addresses {
		t.add("Address", address.Type+" "+address.Address)
	}
	for _, name := range sortedKeys(environment) {
		t.add("Environment", name+"="+environment[name])
	}
}

// addOpen appends to whom else than its user a workspace is open.
func (t *table) addOpen(open sdk.Open) {
	t.addIf("Open", openText(open))
}

// openText is the same in a sentence; empty where it is open to nobody else.
func openText(open sdk.Open) string {
	var parts []string
	if len(open.Enter) > 0 {
		parts = append(parts, "may also be entered by "+strings.Join(open.Enter, ", "))
	}
	if len(open.PublicPorts) > 0 {
		parts = append(parts, "anybody may reach port "+strings.Trim(strings.ReplaceAll(fmt.Sprint(open.PublicPorts), " ", ", "), "[]"))
	}
	return strings.Join(parts, ", and ")
}

// agentDetails tells how the agent is, and how far it is with the claim.
func (a *app) agentDetails(t *table, g sdk.Agent) {
	status := cell{g.Status, ""}
	switch {
	case g.Silent:
		status = cell{g.Status + ", silent", red}
	case g.Status == string(sdk.AgentUnhealthy), g.Status == string(sdk.AgentClaimFailed):
		status = cell{g.Status, red}
	}
	t.add("Agent", status)
	t.addIf("Agent says", g.Message)
	t.addIf("Agent heard of", a.agoOr(g.HeartbeatAt, ""))
	t.addIf("Agent recoveries", g.Recoveries)
	t.addIf("Claim seen", a.agoOr(g.ClaimSeenAt, ""))
	t.addIf("Claim ready", a.agoOr(g.ClaimReadyAt, ""))
}
