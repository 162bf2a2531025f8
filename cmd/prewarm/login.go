package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) loginCommand() *cobra.Command {
	cmd := newCommand("login [ADDRESS]", "Save a token for a server",
		`Takes a token from --token-file, else from standard input, and asks the server who it speaks for. It
saves the token for the server's address in ~/.config/prewarm/credentials.json, which only you can read. Each address
has its own login. ADDRESS does the same as --url. Later commands go to the server of the last login, unless --url or
PREWARM_URL names another, or a server of yours runs on this machine.

On the machine of the server its owner needs no login: the owner-token file in the data directory is found by itself.`,
		`  prewarm login https://prewarm.example.com
  prewarm login https://prewarm.example.com --token-file token.txt`,
		func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.url = args[0]
			}
			client, err := sdk.New(a.server(), "")
			if err != nil {
				return usageErrorf("%v", err)
			}
			if client.Token, err = a.tokenToSave(); err != nil {
				return err
			}
			if client.URL.Scheme == "http" && !loopback(client.URL.Hostname()) {
				a.hint("Warning: %s is not encrypted; everybody on the way can read the token.", client.URL)
			}
			client.Organization = a.organization
			identity, err := client.Login(cmd.Context())
			if err != nil {
				return err
			}
			saved, err := a.readCredentials()
			if err != nil {
				return err
			}
			saved.Servers[client.URL.String()] = login{Token: client.Token, User: identity.User}
			saved.Last = client.URL.String()
			if err := a.writeCredentials(saved); err != nil {
				return err
			}
			if a.env("PREWARM_TOKEN") != "" {
				a.hint("PREWARM_TOKEN is set, and goes before what was saved.")
			}
			if next := withScheme(cmp.Or(a.env("PREWARM_URL"), a.unnamedServer())); next != saved.Last {
				a.hint("Commands without --url go to %s. For this server: export PREWARM_URL=%s", next, saved.Last)
			}
			return a.printf(identity, "Logged in to %s as %s (%s).\n", client.URL, identity.User, identity.Role)
		})
	cmd.Args = func(_ *cobra.Command, args []string) error {
		return usageErrorIf(len(args) > 1, "login takes one address")
	}
	return cmd
}

// tokenToSave reads the token from where login was told; from a terminal without echoing it.
func (a *app) tokenToSave() (string, error) {
	if a.tokenFile != "" {
		return readToken(a.tokenFile)
	}
	if fd, ok := terminal(a.stdin); ok {
		_, _ = fmt.Fprint(a.stderr, "Token: ")
		secret, err := term.ReadPassword(fd)
		_, _ = fmt.Fprintln(a.stderr)
		if err != nil {
			return "", xerrors.Errorf("read token: %w", err)
		}
		return wellFormed(string(secret))
	}
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", xerrors.Errorf("read token: %w", err)
	}
	return wellFormed(line)
}

func wellFormed(token string) (string, error) {
	token = strings.TrimSpace(token)
	return token, cmp.Or(
		usageErrorIf(token == "", "no token on standard input; pipe one in, or name a file with --token-file"),
		usageErrorIf(strings.ContainsAny(token, " \t\r\n"), "what is on standard input is not a token"))
}
