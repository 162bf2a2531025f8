package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) forgeWebhookCommand() *cobra.Command {
	return a.group("webhook", "Install, show, ping and remove the webhook of an entity",
		"A forge tells of its jobs by a webhook. Prewarm installs it where the forge has an API for that.",
		"  prewarm forge webhook install acme",
		a.hookCommand("install", "Install the webhook at the forge, or bring it up to date",
			func(ctx context.Context, c *sdk.Client, name string) (sdk.ForgeHook, error) {
				return c.InstallForgeHook(ctx, name)
			}),
		a.hookCommand("show", "Show the webhook as the forge has it",
			func(ctx context.Context, c *sdk.Client, name string) (sdk.ForgeHook, error) {
				return c.ForgeHook(ctx, name)
			}),
		a.deletion("ping FORGE", "Have the forge send a delivery", "Asks the forge for a delivery, to see whether it arrives: "+
			"\"prewarm forge show\" says when the last one came.", "  prewarm forge webhook ping acme",
			"A delivery was asked for of", func(ctx context.Context, c *sdk.Client, name string) error {
				return c.PingForgeHook(ctx, name)
			}),
		a.deletion("remove FORGE", "Remove the webhook at the forge", "Removes the webhook that Prewarm installed.",
			"  prewarm forge webhook remove acme", "Removed the webhook of",
			func(ctx context.Context, c *sdk.Client, name string) error { return c.RemoveForgeHook(ctx, name) }))
}

func (a *app) hookCommand(
	use, short string, do func(context.Context, *sdk.Client, string) (sdk.ForgeHook, error),
) *cobra.Command {
	return &cobra.Command{
		Use: use + " FORGE", Short: short, Long: short + ".", Example: "  prewarm forge webhook " + use + " acme",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			hook, err := do(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			t := a.newTable()
			t.add("Webhook", hook.ID)
			t.add("URL", hook.URL)
			t.add("Events", strings.Join(hook.Events, ", "))
			t.add("Active", hook.Active)
			t.addIf("Last delivery", hook.LastStatus)
			return a.print(hook, t.String())
		},
	}
}
