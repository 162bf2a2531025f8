package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceLinkCommand() *cobra.Command {
	var path string
	cmd := newCommand("link WORKSPACE PORT", "Make a link by which a browser reaches a port in a workspace",
		`Makes a link to a port in a workspace that you claimed. One browser can open it, once and within a minute, and then reaches the port
for 12 hours at most. That ends with the claim, and with the token that this command uses. A person who opens the link reaches the port
as you do: do not pass it on.

The server needs --workspace-domain. Without it, use "prewarm port-forward".`,
		`  prewarm workspace link prebuild-aebagbafaydqqcikbmga2 3000
  xdg-open "$(prewarm workspace link prebuild-aebagbafaydqqcikbmga2 3000 --path /docs)"`,
		func(cmd *cobra.Command, args []string) error {
			return show(a, func(c *sdk.Client, ctx context.Context, ref string) (sdk.PortLink, error) {
				port, err := portOf(args[1])
				if err != nil {
					return sdk.PortLink{}, err
				}
				return c.LinkPort(ctx, ref, port, path)
			}, func(l sdk.PortLink) string { return l.URL + "\n" })(cmd, args)
		})
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		_, err := portOf(args[1])
		return cmp.Or(err, usageErrorIf(path != "" && !strings.HasPrefix(path, "/"), "--path %q: a path begins with /, such as /docs", path))
	}
	cmd.Flags().StringVar(&path, "path", "", "where it leads, with a query (default /)")
	return cmd
}

func portOf(arg string) (int, error) {
	port, err := strconv.ParseUint(arg, 10, 16)
	return int(port), usageErrorIf(err != nil || port == 0, "%q is no port: write a number from 1 to 65535", arg)
}
