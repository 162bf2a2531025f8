package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) forgeWebhookCommand() *cobra.Command {
	return a.group("webhook", "Install, show, ping and remove the webhook of an entity",
		"A forge tells of its jobs by a webhook. Prewarm installs it where the forge has an API for that.",
		"  prewarm forge webhook install acme",
		a.hookInstallCommand(),
		newCommand("show FORGE", "Show the webhook as the forge has it", "Show the webhook as the forge has it.",
			"  prewarm forge webhook show acme", show(a, (*sdk.Client).ForgeHook, a.hookText)),
		newCommand("ping FORGE", "Have the forge send a delivery", "Asks the forge for a delivery, to see whether it arrives: "+
			"\"prewarm forge show\" says when the last one came.", "  prewarm forge webhook ping acme",
			act(a, (*sdk.Client).PingForgeHook, "done", "A delivery was asked for of %s.\n")),
		newCommand("remove FORGE", "Remove the webhook at the forge", "Removes the webhook that Prewarm installed.",
			"  prewarm forge webhook remove acme",
			act(a, (*sdk.Client).RemoveForgeHook, "done", "Removed the webhook of %s.\n")))
}

func (a *app) hookInstallCommand() *cobra.Command {
	var takeOver bool
	cmd := newCommand("install FORGE", "Install the webhook at the forge, or bring it up to date",
		`Installs the webhook at the forge, or brings it up to date. One for the same URL that a person made is left
alone, and the command says so. With --take-over it is Prewarm's afterwards, with the entity's secret and the right
event, and no second is left there.`, "  prewarm forge webhook install acme\n  prewarm forge webhook install acme --take-over",
		show(a, func(c *sdk.Client, ctx context.Context, name string) (sdk.ForgeHook, error) {
			if takeOver {
				return c.TakeOverForgeHook(ctx, name)
			}
			return c.InstallForgeHook(ctx, name)
		}, a.hookText))
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "make one that a person made Prewarm's")
	return cmd
}

func (a *app) hookText(hook sdk.ForgeHook) string {
	t := a.newTable()
	t.add("Webhook", hook.ID)
	t.add("URL", hook.URL)
	if hook.Ours {
		t.add("Installed", "by Prewarm")
	} else {
		t.add("Installed", cell{"by a person; \"prewarm forge webhook install FORGE --take-over\" makes it Prewarm's", yellow})
	}
	t.add("Events", strings.Join(hook.Events, ", "))
	t.add("Active", hook.Active)
	t.addIf("Last delivery", hook.LastStatus)
	for _, other := range hook.Others {
		t.add("Another", cell{fmt.Sprintf("webhook %d calls the same URL, and was made by a person", other.ID), yellow})
	}
	return t.String()
}
