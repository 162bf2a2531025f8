package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) forgeWebhookCommand() *cobra.Command {
	return a.group("webhook", "Install, show, ping and remove the webhook of an entity",
		"A forge tells of its jobs by a webhook. Prewarm installs it where the forge has an API for that.",
		"  prewarm forge webhook install acme",
		newCommand("install FORGE", "Install the webhook at the forge, or bring it up to date",
			"Install the webhook at the forge, or bring it up to date.", "  prewarm forge webhook install acme",
			show(a, (*sdk.Client).InstallForgeHook, a.hookText)),
		newCommand("show FORGE", "Show the webhook as the forge has it", "Show the webhook as the forge has it.",
			"  prewarm forge webhook show acme", show(a, (*sdk.Client).ForgeHook, a.hookText)),
		newCommand("ping FORGE", "Have the forge send a delivery", "Asks the forge for a delivery, to see whether it arrives: "+
			"\"prewarm forge show\" says when the last one came.", "  prewarm forge webhook ping acme",
			act(a, (*sdk.Client).PingForgeHook, "done", "A delivery was asked for of %s.\n")),
		newCommand("remove FORGE", "Remove the webhook at the forge", "Removes the webhook that Prewarm installed.",
			"  prewarm forge webhook remove acme",
			act(a, (*sdk.Client).RemoveForgeHook, "done", "Removed the webhook of %s.\n")))
}

func (a *app) hookText(hook sdk.ForgeHook) string {
	t := a.newTable()
	t.add("Webhook", hook.ID)
	t.add("URL", hook.URL)
	t.add("Events", strings.Join(hook.Events, ", "))
	t.add("Active", hook.Active)
	t.addIf("Last delivery", hook.LastStatus)
	return t.String()
}
