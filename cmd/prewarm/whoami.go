package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) whoamiCommand() *cobra.Command {
	return newCommand("whoami", "Show who the token speaks for",
		"Shows the user, the role and the organization of the token in use, and when the token ends.",
		"  prewarm whoami\n  PREWARM_TOKEN=$CI_TOKEN prewarm whoami -o json",
		show(a, noArg((*sdk.Client).Whoami), a.identityText))
}

func (a *app) identityText(identity sdk.Identity) string {
	t := a.newTable()
	t.add("User", identity.User)
	t.add("Role", identity.Role)
	t.add("Organization", identity.Organization)
	t.add("Token", identity.TokenName)
	t.add("Ends", a.agoOr(identity.ExpiresAt, "never"))
	t.add("Server", a.server())
	return t.String()
}
