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
		a.hookCommand("install", "Install the webhook at the forge, or bring it up to date",
			(*sdk.Client).InstallForgeHook),
		a.hookCommand("show", "Show the webhook as the forge has it", (*sdk.Client).ForgeHook),
		a.deletion("ping FORGE", "Have the forge send a delivery", "Asks the forge for a delivery, to see whether it arrives: "+
			"\"prewarm forge show\" says when the last one came.", "  prewarm forge webhook ping acme",
			"A delivery was asked for of", (*sdk.Client).PingForgeHook),
		a.deletion("remove FORGE", "Remove the webhook at the forge", "Removes the webhook that Prewarm installed.",
			"  prewarm forge webhook remove acme", "Removed the webhook of", (*sdk.Client).RemoveForgeHook))
}

func (a *app) hookCommand(
	use, short string, do asking[sdk.ForgeHook],
) *cobra.Command {
	return &cobra.Command{
		Use: use + " FORGE", Short: short, Long: short + ".", Example: "  prewarm forge webhook " + use + " acme",
		RunE: show(a, do, a.hookText),
	}
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
