package main

import (
	"cmp"
	"context"

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
	var filter sdk.AuditFilter
	var limit int
	cmd := newCommand("list", "List entries of the audit log, newest first",
		`Lists entries of the audit log, newest first: who did what, on what, and from where. With -o json each
has what was before and after. Owners and auditors see everything.`,
		`  prewarm audit list --limit 20
  prewarm audit list --action workspace.claim --actor alice -o json
  prewarm audit list --filter "release ali"`,
		a.asks(func(ctx context.Context, c *sdk.Client, _ string) error {
			filter.Limit = int32(limit)
			page, err := c.Audit(ctx, filter)
			if err != nil {
				return err
			}
			if len(page.Entries) == 0 {
				a.hint("There are no such entries.")
			}
			if err := a.print(page.Entries, a.auditText(page.Entries)); err != nil {
				return err
			}
			if page.Next != 0 {
				a.hint("There are older entries: --before %d", page.Next)
			}
			return nil
		}))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return usageErrorIf(limit < 1 || limit > 500,
			"--limit must be between 1 and 500; older entries are reached with --before")
	}
	cmd.Flags().StringVar(&filter.Action, "action", "", "only this action, such as workspace.release")
	cmd.Flags().StringVar(&filter.Actor, "actor", "", "only what this user did")
	cmd.Flags().StringVar(&filter.Target, "target", "", "only what was done to this, by name or id")
	filterFlag(cmd, &filter.Q, "the actor, action, target, reason or source")
	cmd.Flags().BoolVar(&filter.People, "people", false, "leave out what Prewarm did by itself")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many entries, up to 500")
	cmd.Flags().Int64Var(&filter.Before, "before", 0, "only entries with a smaller id than this")
	return cmd
}

func (a *app) auditText(entries []sdk.AuditEntry) string {
	t := a.newTable("ID", "WHEN", "WHO", "ACTION", "TARGET", "FROM", "REASON")
	for _, e := range entries {
		t.add(e.ID, a.ago(e.At), e.Actor, e.Action, e.TargetType+" "+cmp.Or(e.TargetName, e.TargetID), e.Source, e.Reason)
	}
	return t.String()
}
