package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) logoutCommand() *cobra.Command {
	return newCommand("logout", "Forget the token saved for a server",
		`Removes what "prewarm login" saved for the server's address. The token itself stays valid: to end it,
use "prewarm token revoke" before.`,
		`  prewarm logout
  prewarm logout --url https://prewarm.example.com`,
		func(*cobra.Command, []string) error {
			server, err := sdk.ParseURL(a.server())
			if err != nil {
				return usageErrorf("%v", err)
			}
			saved, err := a.readCredentials()
			if err != nil {
				return err
			}
			_, known := saved.Servers[server.String()]
			if known {
				delete(saved.Servers, server.String())
				if saved.Last == server.String() {
					saved.Last = ""
				}
				if err := a.writeCredentials(saved); err != nil {
					return err
				}
			}
			result := struct {
				URL       string `json:"url"`
				LoggedOut bool   `json:"logged_out"`
			}{server.String(), known}
			message := "Logged out of %s. The token is still valid.\n"
			if !known {
				message = "There was no login for %s.\n"
			}
			return a.print(result, fmt.Sprintf(message, server))
		})
}
