package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) inventoryCommand() *cobra.Command {
	var provider string
	var all bool
	cmd := newCommand("inventory", "Compare what providers have with what the database says",
		`Asks the providers and the database now, and shows where they differ, with what will follow once two inventories
agree on it. Nothing is done by looking. With --all, also what is as it should be.

The replicas make the same comparison by themselves, about each minute. Use "prewarm provider confirm" to let orphans
be deleted at a provider that is new. Use "prewarm provider resume" to close a breaker.`,
		`  prewarm inventory
  prewarm inventory --provider docker --all`,
		show(a, func(c *sdk.Client, ctx context.Context, _ string) ([]sdk.Inventory, error) {
			return c.Inventories(ctx, provider)
		}, func(list []sdk.Inventory) string { return a.inventoriesText(list, all) }))
	cmd.Flags().StringVar(&provider, "provider", "", "only this one")
	cmd.Flags().BoolVar(&all, "all", false, "also what is as it should be")
	a.completeFlag(cmd, "provider", "PROVIDER")
	return cmd
}

func (a *app) inventoriesText(list []sdk.Inventory, all bool) string {
	summary := a.newTable("PROVIDER", "SITE", "LAST", "RESOURCES", "AMISS", "BREAKER", "ORPHANS")
	entries := a.newTable("PROVIDER", "VERDICT", "WORKSPACE", "STATE", "RESOURCE", "STATUS", "SEEN", "WHY", "NEXT")
	for _, inv := range list {
		last, wrong := cell{"never", yellow}, 0
		if inv.Last != nil {
			last = cell{a.ago(inv.Last.EndedAt), green}
			if inv.Last.Outcome != "complete" {
				last = cell{last.text + ", incomplete: " + inv.Last.Error, red}
			}
		}
		resources := 0
		for _, e := range inv.Entries {
			if e.Resource != "" {
				resources++
			}
			fine := e.Verdict == "ok" || e.Verdict == "making" || e.Verdict == "going"
			if !fine {
				wrong++
			}
			if all || !fine {
				entries.add(inv.Provider, verdictCell(e.Verdict), e.Workspace, e.State, e.Resource, e.Status, e.Seen, e.Detail, e.Next)
			}
		}
		if inv.Error != "" {
			entries.add(inv.Provider, cell{"not seen", red}, "", "", "", "", 0, inv.Error, "")
		}
		breaker := cell{"closed", green}
		if b := inv.Breaker; b != nil {
			breaker = cell{fmt.Sprintf("open: %s (%d of %d clean)", b.Reason, b.Clean, b.CloseAt), red}
		}
		orphans := "deleted"
		if !inv.Confirmed {
			orphans = "shown"
		}
		summary.add(inv.Provider, inv.Site, last, resources, wrong, breaker, orphans)
	}
	text := summary.String()
	if len(entries.rows) > 1 { // not only the heading
		text += "\n" + entries.String()
	}
	return text
}

func verdictCell(verdict string) cell {
	switch verdict {
	case "ok":
		return cell{verdict, green}
	case "making", "going", "adopt", "unknown":
		return cell{verdict, yellow}
	default:
		return cell{verdict, red}
	}
}

func (a *app) providerResumeCommand() *cobra.Command {
	cmd := newCommand("resume PROVIDER", "Close the breaker of a provider",
		`Closes the breaker of a provider, so that workspaces are created and deleted there again. It closes by itself after
some clean inventories; this is for who knows sooner that all is well. If what opened it is still so, it opens again.

A pause is another thing: "prewarm resume provider NAME" ends that.`,
		"  prewarm provider resume docker",
		show(a, (*sdk.Client).ResumeProvider, func(p sdk.Provider) string {
			return fmt.Sprintf("The breaker of provider %s is closed.\n", p.Name)
		}))
	cmd.ValidArgsFunction = a.completeProviders(func(p sdk.Provider) bool { return p.Breaker != nil })
	return cmd
}

func (a *app) providerConfirmCommand() *cobra.Command {
	cmd := newCommand("confirm PROVIDER", "Let orphans be deleted at a provider",
		`Lets inventories delete what they find at a provider with this installation's tag and no workspace. Until then they
only show it: look at "prewarm inventory --provider NAME" first. Providers of the kinds local, sim and docker are
confirmed from the start. Nothing takes it back.`,
		`  prewarm inventory --provider openstack
  prewarm provider confirm openstack`,
		show(a, (*sdk.Client).ConfirmProvider, func(p sdk.Provider) string {
			return fmt.Sprintf("Orphans are deleted at provider %s from now on.\n", p.Name)
		}))
	cmd.ValidArgsFunction = a.completeProviders(func(p sdk.Provider) bool { return !p.Confirmed })
	return cmd
}
