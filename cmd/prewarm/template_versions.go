package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) templateVersionsCommand() *cobra.Command {
	var limit, before, show int
	cmd := newCommand("versions TEMPLATE", "List the versions of a template, or show one",
		`Lists the versions of a template, newest first, with how many workspaces there are of each. --show prints one of
them: provider, spec and agent as YAML whose keys are sorted, so that two can be compared.`,
		`  prewarm template versions quickstart
  prewarm template versions quickstart --show 2`,
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			if show > 0 {
				version, err := c.TemplateVersion(ctx, name, show)
				if err != nil {
					return err
				}
				return a.print(version, version.Text)
			}
			page, err := c.TemplateVersions(ctx, name, limit, before)
			if err != nil {
				return err
			}
			if err := a.print(page.Versions, a.versionsText(page.Versions)); err != nil {
				return err
			}
			if page.Next != 0 {
				a.hint("There are older versions: --before %d", page.Next)
			}
			return nil
		}))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return cmp.Or(usageErrorIf(limit < 1 || limit > 500,
			"--limit must be between 1 and 500; older versions are reached with --before"),
			checkVersion(cmd, "show", show))
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many versions, up to 500")
	cmd.Flags().IntVar(&before, "before", 0, "only versions with a smaller number than this")
	cmd.Flags().IntVar(&show, "show", 0, "print the version of this number")
	return cmd
}

func (a *app) versionsText(versions []sdk.TemplateVersion) string {
	t := a.newTable("VERSION", "ACTIVE", "UNCLAIMED", "CLAIMED", "PROVIDER", "CREATED", "BY", "HASH")
	for _, v := range versions {
		t.add(v.Number, activeCell(v.Active), v.Unclaimed, v.Claimed, v.Provider, a.ago(v.CreatedAt), v.CreatedBy, v.Hash)
	}
	return t.String()
}

func activeCell(active bool) cell {
	if active {
		return cell{"yes", green}
	}
	return cell{"no", plain}
}
