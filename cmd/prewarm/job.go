package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) jobCommand() *cobra.Command {
	return group("job", "See the jobs of forges", "A queued job is demand for a runner; one that nothing can serve says why.",
		"  prewarm job list --unserved", a.jobListCommand(), a.jobShowCommand())
}

func (a *app) jobListCommand() *cobra.Command {
	var filter sdk.ForgeJobFilter
	limit := 100
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first",
		Long:    "Lists jobs of forges, newest first, with whose demand they are, where they run, and why nothing serves them.",
		Example: "  prewarm job list --forge acme --state queued\n  prewarm job list --unserved", Args: exactArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageErrorf("--limit must not be negative")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			var all []sdk.ForgeJob
			for {
				filter.Limit = pageOf(limit, len(all))
				page, err := client.ForgeJobs(cmd.Context(), filter)
				if err != nil {
					return err
				}
				all = append(all, page.Jobs...)
				if filter.After = page.Next; filter.After == "" || limit > 0 && len(all) >= limit {
					break
				}
			}
			if len(all) == 0 {
				a.hint("There are no such jobs.")
			}
			return a.print(all, a.jobTable(all).write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&filter.Forge, "forge", "", "only those of this entity")
	f.StringVar(&filter.State, "state", "", "only those that are waiting, queued, in_progress or completed")
	f.StringVar(&filter.Template, "template", "", "only those of this template")
	f.StringVar(&filter.Preset, "preset", "", "only those of presets of this name")
	f.BoolVar(&filter.Unserved, "unserved", false, "only those that nothing can serve")
	f.IntVar(&limit, "limit", 100, "at most so many; 0 is all")
	must(cmd.RegisterFlagCompletionFunc("forge", a.completeForges))
	return cmd
}

func (a *app) jobTable(jobs []sdk.ForgeJob) *table {
	t := a.newTable("JOB", "REPOSITORY", "NAME", "LABELS", "STATE", "QUEUED", "WAITED", "PRESET", "RUNNER", "NOTE")
	for _, j := range jobs {
		preset := ""
		if j.Preset != "" {
			preset = j.Template + "/" + j.Preset
		}
		note := cell{text: j.Conclusion}
		if j.Unserved != "" {
			note = cell{j.Unserved, red}
		}
		t.add(fmt.Sprintf("%d/%d", j.JobID, j.Attempt), j.Repository, j.Name, strings.Join(j.Labels, ","), j.State,
			a.ago(j.QueuedAt), age(time.Duration(j.WaitS*float64(time.Second))), preset, j.Runner, note)
	}
	return t
}

func (a *app) jobShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Short: "Show the attempts of a job",
		Long:    "Shows the attempts of a job, newest first. The job is named by the forge's number, or by the id of one attempt.",
		Example: "  prewarm job show 29679449526", Args: exactArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			jobs, err := client.ForgeJob(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(jobs, a.jobTable(jobs).write)
		},
	}
}
