package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) runnerCommand() *cobra.Command {
	return group("runner", "See the runners of forges",
		"A runner is a workspace of a runner preset: it is deleted, entered and kept with \"prewarm workspace\".",
		"  prewarm runner list", a.runnerListCommand(), a.runnerShowCommand())
}

func (a *app) runnerListCommand() *cobra.Command {
	var filter sdk.RunnerFilter
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List runners",
		Long:    "Lists runners, newest first, page after page unless --limit ends it. The status is the forge's word.",
		Example: "  prewarm runner list --forge acme --status active", Args: exactArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageErrorf("--limit must not be negative")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			var all []sdk.Runner
			for {
				filter.Limit = pageOf(limit, len(all))
				page, err := client.Runners(cmd.Context(), filter)
				if err != nil {
					return err
				}
				all = append(all, page.Runners...)
				if filter.After = page.Next; filter.After == "" || limit > 0 && len(all) >= limit {
					break
				}
			}
			if len(all) == 0 {
				a.hint("There are no such runners.")
			}
			t := a.newTable("NAME", "PRESET", "FORGE", "STATE", "STATUS", "SINCE", "JOB")
			for _, r := range all {
				t.add(r.Name, r.Template+"/"+r.Preset, r.Entity, stateCell(r.State), r.Status, a.ago(r.StatusAt), jobText(r.Job))
			}
			return a.print(all, t.write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&filter.Forge, "forge", "", "only those of this entity")
	f.StringVar(&filter.Status, "status", "", "only those that are pending, idle, active, offline or gone at the forge")
	f.StringVar(&filter.Template, "template", "", "only those of this template")
	f.StringVar(&filter.Preset, "preset", "", "only those of presets of this name")
	f.BoolVar(&filter.Gone, "gone", false, "also those that there are no more")
	f.IntVar(&limit, "limit", 0, "at most so many; 0 is all")
	must(cmd.RegisterFlagCompletionFunc("forge", a.completeForges))
	return cmd
}

// pageOf is how many to ask for where limit are wanted, 0 being all, and there are some already.
func pageOf(limit, have int) int {
	const largestPage = 500
	if limit == 0 {
		return largestPage
	}
	return min(limit-have, largestPage)
}

func jobText(j *sdk.ForgeJob) string {
	if j == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s", j.Repository, j.Name)
}

func (a *app) runnerShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show RUNNER", Short: "Show one runner", Long: "Shows one runner, named by its name or the id of its workspace.",
		Example: "  prewarm runner show prebuild-aebagbafaydqqcikbmga2", Args: exactArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			r, err := client.Runner(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			t := a.newTable()
			t.add("Runner", r.Name)
			t.add("Workspace", r.WorkspaceID)
			t.add("Preset", r.Template+"/"+r.Preset)
			t.add("Forge", r.Entity)
			t.add("State", stateCell(r.State))
			t.add("Status", r.Status+", "+a.ago(r.StatusAt))
			t.add("Labels", strings.Join(r.Labels, ", "))
			t.add("Registered", a.agoOr(r.RegisteredAt, "never"))
			t.addIf("Job", jobText(r.Job))
			return a.print(r, t.write)
		},
	}
}
