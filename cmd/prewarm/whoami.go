package main

import (
	"github.com/spf13/cobra"
)

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show who the token speaks for",
		Long:    "Shows the user, the role and the organization of the token in use, and when the token ends.",
		Example: "  prewarm whoami\n  PREWARM_TOKEN=$CI_TOKEN prewarm whoami -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			identity, err := client.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			t := a.newTable()
			t.add("User", identity.User)
			t.add("Role", identity.Role)
			t.add("Organization", identity.Organization)
			t.add("Token", identity.TokenName)
			t.add("Ends", a.agoOr(identity.ExpiresAt, "never"))
			t.add("Server", a.url)
			return a.print(identity, t.String())
		},
	}
}
