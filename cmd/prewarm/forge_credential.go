package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) forgeCredentialCommand() *cobra.Command {
	return a.group("credential", "Add, change, list and delete credentials for forges",
		"A credential is a token, or one installation of a GitHub App. It is stored sealed, and never shown.",
		"  prewarm forge credential list",
		a.credentialPutCommand("add", "Add a credential"), a.credentialPutCommand("update", "Change a credential"),
		a.credentialListCommand(),
		newCommand("delete CREDENTIAL", "Delete a credential", "Deletes a credential that no entity uses.",
			"  prewarm forge credential delete acme-app",
			act(a, (*sdk.Client).DeleteForgeCredential, "done", "Deleted credential %s.\n")))
}

func (a *app) credentialPutCommand(use, short string) *cobra.Command {
	var req sdk.PutForgeCredential
	var tokenFile, keyFile, caFile string
	cmd := newCommand(use+" CREDENTIAL", short,
		short+`. The secret is read from a file, or from standard input where that is "-". It is never an
argument, since everybody on a machine can see these.`,
		"  prewarm forge credential "+use+` acme-app --kind github --app-id 1 --installation-id 2 --private-key-file app.pem
  prewarm forge credential `+use+` gitea --kind gitea --api-url https://gitea.example.com --forge-token-file -`,
		show(a, func(c *sdk.Client, ctx context.Context, name string) (sdk.ForgeCredential, error) {
			return c.PutForgeCredential(ctx, name, req)
		}, func(saved sdk.ForgeCredential) string { return a.credentialsText([]sdk.ForgeCredential{saved}) }))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		if req.Token, err = a.secretFile(tokenFile); err != nil {
			return err
		}
		if req.PrivateKey, err = a.secretFile(keyFile); err != nil {
			return err
		}
		if cmd.Flags().Changed("ca-file") {
			var bundle []byte
			if caFile != "" {
				if bundle, err = os.ReadFile(caFile); err != nil {
					return xerrors.Errorf("read authorities: %w", err)
				}
			}
			text := string(bundle)
			req.CABundle = &text
		}
		return nil
	}
	f := cmd.Flags()
	f.StringVar(&req.Kind, "kind", "", "github or gitea; fixed")
	f.StringVar(&req.URL, "api-url", "", "of the forge's API; https://api.github.com where empty for github")
	f.StringVar(&tokenFile, "forge-token-file", "", "file of the forge's token, - for standard input")
	f.Int64Var(&req.AppID, "app-id", 0, "of a GitHub App")
	f.Int64Var(&req.InstallationID, "installation-id", 0, "of the App in the organization")
	f.StringVar(&keyFile, "private-key-file", "", "PEM file of the App's private key, - for standard input")
	f.StringVar(&caFile, "ca-file", "", "PEM file of authorities to trust as well as the usual; empty: none")
	if use == "add" { // its name is new
		cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cmd
}

func (a *app) credentialsText(list []sdk.ForgeCredential) string {
	t := a.newTable("NAME", "KIND", "URL", "AUTH", "ENTITIES", "SEALED BY", "CHANGED")
	for _, c := range list {
		t.add(c.Name, c.Kind, c.URL, c.Auth, c.Entities, c.SealedBy, a.ago(c.UpdatedAt))
	}
	return t.String()
}

func (a *app) credentialListCommand() *cobra.Command {
	return newCommand("list", "List credentials",
		"Lists credentials for forges. Their secrets are not shown.",
		"  prewarm forge credential list",
		list(a, view[sdk.ForgeCredential]{
			ask: noArg((*sdk.Client).ForgeCredentials), text: a.credentialsText,
			none: "There are no credentials. Add one with: prewarm forge credential add CREDENTIAL",
		}))
}
