package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) adminCommand() *cobra.Command {
	return a.group("admin", "Look after the installation itself",
		"What owners do to the installation rather than to its pools.",
		"  prewarm admin rotate-signing-key",
		append(a.hostAdminCommands(), a.signingKeysCommand(), a.rotateSigningKeyCommand(), a.notifyCommand())...)
}

func (a *app) signingKeysCommand() *cobra.Command {
	return newCommand("signing-keys", "List the keys that sign instance tokens",
		`Lists the keys that sign the tokens of agents, the newest first. The newest signs; those that are not retired
are still good. A key is retired when no agent uses it any more.`,
		"  prewarm admin signing-keys",
		list(a, view[sdk.SigningKey]{
			ask: noArg((*sdk.Client).SigningKeys), text: a.signingKeysText,
			none: "There is no key yet. The first workspace with an agent makes one.",
		}))
}

func (a *app) rotateSigningKeyCommand() *cobra.Command {
	var req sdk.RotateRequest
	cmd := newCommand("rotate-signing-key", "Sign instance tokens with a new key",
		`Makes a new key, with which the tokens of agents are signed from now on. Agents get a new token with their next
report; an older key is retired when no agent uses it any more.

With --retire-now the older keys end at once, as they must when somebody else may know them. Agents that hold a token
of theirs are cut off: their prebuilds are replaced, and of their claimed workspaces an alarm is raised.`,
		`  prewarm admin rotate-signing-key
  prewarm admin rotate-signing-key --retire-now`,
		show(a, func(c *sdk.Client, ctx context.Context, _ string) ([]sdk.SigningKey, error) {
			return c.RotateSigningKey(ctx, req)
		}, a.signingKeysText))
	cmd.Flags().BoolVar(&req.RetireNow, "retire-now", false, "end the older keys at once, cutting off agents that use them")
	return cmd
}

func (a *app) signingKeysText(keys []sdk.SigningKey) string {
	t := a.newTable("KEY", "CREATED", "STATE", "AGENTS")
	for _, k := range keys {
		state := "verifies"
		switch {
		case k.Signs:
			state = "signs"
		case k.RetiredAt != nil:
			state = fmt.Sprintf("retired %s", a.ago(*k.RetiredAt))
		}
		t.add(k.ID, a.ago(k.CreatedAt), state, k.Agents)
	}
	return t.String()
}
