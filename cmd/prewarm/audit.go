package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) auditCommand() *cobra.Command {
	return a.group("audit", "See who did what",
		"The audit log has an entry for every create, claim, release, delete, change of configuration and login.",
		"  prewarm audit list",
		a.auditListCommand())
}

func (a *app) auditListCommand() *cobra.Command {
	filter := sdk.AuditFilter{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries of the audit log, newest first",
		Long: `Lists entries of the audit log, newest first: who did what, on what, and from where. With -o json each
has what was before and after. Owners and auditors see all of it.`,
		Example: `  prewarm audit list --limit 20
  prewarm audit list --action workspace.claim --actor alice -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.Limit < 1 || filter.Limit > 500 {
				return usageErrorf("--limit must be between 1 and 500; older entries are reached with --before")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			page, err := client.Audit(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if len(page.Entries) == 0 {
				a.hint("There are no such entries.")
			}
			t := a.newTable("ID", "WHEN", "WHO", "ACTION", "TARGET", "FROM", "REASON")
			for _, e := range page.Entries {
				target := e.TargetName
				if target == "" {
					target = e.TargetID
				}
				t.add(e.ID, a.ago(e.At), e.Actor, e.Action, e.TargetType+" "+target, e.Source, e.Reason)
			}
			if err := a.print(page.Entries, t.String()); err != nil {
				return err
			}
			if page.Next != 0 {
				a.hint("There are older entries: --before %d", page.Next)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&filter.Action, "action", "", "only this action, such as workspace.release")
	cmd.Flags().StringVar(&filter.Actor, "actor", "", "only what this user did")
	cmd.Flags().StringVar(&filter.Target, "target", "", "only what was done to this, by name or id")
	cmd.Flags().BoolVar(&filter.People, "people", false, "leave out what Prewarm did by itself")
	cmd.Flags().IntVar(&filter.Limit, "limit", 100, "at most so many entries, up to 500")
	cmd.Flags().Int64Var(&filter.Before, "before", 0, "only entries with a smaller id than this")
	return cmd
}
