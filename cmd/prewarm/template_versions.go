package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) templateVersionsCommand() *cobra.Command {
	var limit, before, show int
	cmd := &cobra.Command{
		Use:   "versions TEMPLATE",
		Short: "List the versions of a template, or show one",
		Long: `Lists the versions of a template, newest first, with how many workspaces there are of each. --show prints one of
them: provider, spec and agent as YAML whose keys are sorted, so that two can be compared.`,
		Example: `  prewarm template versions quickstart
  prewarm template versions quickstart --show 2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 500 {
				return usageErrorf("--limit must be between 1 and 500; older versions are reached with --before")
			}
			if show < 0 || cmd.Flags().Changed("show") && show == 0 {
				return usageErrorf("--show must be the number of a version, 1 or more")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if show > 0 {
				version, err := client.TemplateVersion(cmd.Context(), args[0], show)
				if err != nil {
					return err
				}
				return a.print(version, version.Text)
			}
			page, err := client.TemplateVersions(cmd.Context(), args[0], limit, before)
			if err != nil {
				return err
			}
			if err := a.print(page.Versions, a.versionTable(page.Versions).String()); err != nil {
				return err
			}
			if page.Next != 0 {
				a.hint("There are older versions: --before %d", page.Next)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many versions, up to 500")
	cmd.Flags().IntVar(&before, "before", 0, "only versions with a smaller number than this")
	cmd.Flags().IntVar(&show, "show", 0, "print the version of this number")
	return cmd
}

func (a *app) versionTable(versions []sdk.TemplateVersion) *table {
	t := a.newTable("VERSION", "ACTIVE", "UNCLAIMED", "CLAIMED", "PROVIDER", "CREATED", "BY", "HASH")
	for _, v := range versions {
		active := cell{"no", plain}
		if v.Active {
			active = cell{"yes", green}
		}
		t.add(v.Number, active, v.Unclaimed, v.Claimed, v.Provider, a.ago(v.CreatedAt), v.CreatedBy, v.Hash)
	}
	return t
}
