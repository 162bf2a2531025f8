package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) tokenCommand() *cobra.Command {
	return a.group("token", "Make, list and revoke tokens",
		"Tokens are how people and programs show who they are. Everybody can make tokens for themselves; owners for others.",
		"  prewarm token create ci --expires-in 720h",
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

func (a *app) tokenCreateCommand() *cobra.Command {
	req := sdk.CreateTokenRequest{}
	cmd := newCommand("create NAME", "Make a token",
		`Makes a token and prints its secret, alone on standard output. It is shown this one time only: the
server keeps nothing from which it can be recovered.

Owners make tokens for others with --user; a user who does not exist yet is made, with the role of --role.`,
		`  prewarm token create laptop > token.txt
  prewarm token create ci --user ci --role member --expires-in 720h`,
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			req.Name = name
			created, err := c.CreateToken(ctx, req)
			if err != nil {
				return err
			}
			a.hint("Token %q of %s. This is the only time that its secret is shown.", created.Name, created.User)
			return a.print(created, created.Secret+"\n")
		}))
	cmd.Flags().StringVar(&req.User, "user", "", "whom it is for; yourself where empty")
	cmd.Flags().StringVar(&req.Role, "role", "", "role of a user to be made: owner, template-admin, member or auditor")
	cmd.Flags().StringVar(&req.ExpiresIn, "expires-in", "", "how long it is valid, such as 720h; for ever where empty")
	oneOf(cmd, "role", "owner", "template-admin", "member", "auditor")
	return cmd
}

func (a *app) tokenListCommand() *cobra.Command {
	return newCommand("list", "List tokens",
		"Lists your tokens; for owners, everybody's. The secrets are not in the list: nobody has them.",
		"  prewarm token list",
		list(a, view[sdk.Token]{
			ask: noArg((*sdk.Client).Tokens), text: a.tokensText,
			none: "There are no tokens. Make one with: prewarm token create NAME",
		}))
}

func (a *app) tokensText(tokens []sdk.Token) string {
	t := a.newTable("NAME", "USER", "ROLE", "HINT", "CREATED", "LAST USED", "ENDS", "ID")
	for _, token := range tokens {
		ends := cell{text: a.agoOr(token.ExpiresAt, "never")}
		if token.RevokedAt != nil {
			ends = cell{"revoked " + a.ago(*token.RevokedAt), yellow}
		}
		t.add(token.Name, token.User, token.Role, token.Hint, a.ago(token.CreatedAt),
			a.agoOr(token.LastUsedAt, "never"), ends, token.ID)
	}
	return t.String()
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	cmd := newCommand("revoke TOKEN", "End a token",
		"Ends a token, named by its name or id, and all tokens that were made with it, also those of other users. Within a\n"+
			"second no replica accepts them any more, and what was begun with them ends: exec, followed logs, claims that wait.",
		"  prewarm token revoke laptop",
		act(a, (*sdk.Client).RevokeToken, "revoked", "Revoked token %s.\n"))
	cmd.ValidArgsFunction = a.completeTokens()
	return cmd
}
