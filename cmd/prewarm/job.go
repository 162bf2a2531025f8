package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) jobCommand() *cobra.Command {
	return a.group("job", "See the jobs of forges", "A queued job is demand for a runner; one that nothing can serve says why.",
		"  prewarm job list --unserved", a.jobListCommand(), a.jobShowCommand())
}

func (a *app) jobListCommand() *cobra.Command {
	var filter sdk.ForgeJobFilter
	var watch watchFlags
	limit := 100
	cmd := newCommand("list", "List jobs, newest first",
		"Lists jobs of forges, newest first, with whose demand they are, where they run, and why nothing serves them."+
			watchHelp("job"),
		"  prewarm job list --forge acme --state queued\n  prewarm job list --unserved\n"+
			"  prewarm job list --filter \"shop arm64\"\n  prewarm job list --watch",
		list(a, view[sdk.ForgeJob]{
			ask: func(c *sdk.Client, ctx context.Context, _ string) ([]sdk.ForgeJob, error) {
				return readPages(limit, func(size int, after string) ([]sdk.ForgeJob, string, error) {
					filter.Limit, filter.After = int32(size), after
					page, err := c.ForgeJobs(ctx, filter)
					return page.Jobs, page.Next, err
				})
			},
			text: a.jobsText, none: "There are no such jobs.", watch: &watch,
			name: jobName, line: jobLine, still: func(j sdk.ForgeJob) sdk.ForgeJob { j.WaitS = 0; return j },
		}))
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		return cmp.Or(checkLimit(limit), watch.check(cmd, args))
	}
	f := cmd.Flags()
	f.StringVar(&filter.Forge, "forge", "", "only those of this entity")
	f.StringVar(&filter.State, "state", "", "only those that are waiting, queued, in_progress or completed")
	f.StringVar(&filter.Template, "template", "", "only those of this template")
	f.StringVar(&filter.Preset, "preset", "", "only those of presets of this name")
	filterFlag(cmd, &filter.Q, "the repository, job, workflow, labels, runner, forge or pool")
	f.BoolVar(&filter.Unserved, "unserved", false, "only those that nothing can serve")
	f.IntVar(&limit, "limit", 100, "at most so many; 0 is all")
	watch.add(cmd)
	a.completeFlag(cmd, "forge", "FORGE")
	return cmd
}

func jobName(j sdk.ForgeJob) string { return fmt.Sprintf("%d/%d", j.JobID, j.Attempt) }

// slashed is TEMPLATE/PRESET, empty where there is none.
func slashed(template, preset string) string {
	if preset == "" {
		return ""
	}
	return template + "/" + preset
}

func jobLine(j sdk.ForgeJob) string {
	line := fmt.Sprintf("%s %s: %s labels=%s state=%s", jobName(j), j.Repository, j.Name, strings.Join(j.Labels, ","), j.State)
	if preset := slashed(j.Template, j.Preset); preset != "" {
		line += " preset=" + preset
	}
	if j.Runner != "" {
		line += " runner=" + j.Runner
	}
	return noted(line, j.Conclusion+j.Unserved+delayOf(j)) // never two of them
}

// delayOf is why a job waits though a preset is to serve it.
func delayOf(j sdk.ForgeJob) string {
	if j.Delay == nil {
		return ""
	}
	return j.Delay.Text
}

func (a *app) jobsText(jobs []sdk.ForgeJob) string {
	t := a.newTable("JOB", "REPOSITORY", "NAME", "LABELS", "STATE", "QUEUED", "WAITED", "PRESET", "RUNNER", "NOTE")
	for _, j := range jobs {
		note := cell{text: j.Conclusion}
		if j.Unserved != "" {
			note = cell{j.Unserved, red}
		}
		if j.Delay != nil {
			note = cell{delayOf(j), yellow}
		}
		t.add(jobName(j), j.Repository, j.Name, strings.Join(j.Labels, ","), j.State,
			a.ago(j.QueuedAt), age(time.Duration(j.WaitS*float64(time.Second))), slashed(j.Template, j.Preset), j.Runner, note)
	}
	return t.String()
}

func (a *app) jobShowCommand() *cobra.Command {
	return newCommand("show JOB", "Show the attempts of a job",
		"Shows the attempts of a job, newest first. The job is named by the forge's number, or by the id of one attempt.",
		"  prewarm job show 29679449526",
		show(a, (*sdk.Client).ForgeJob, a.jobsText))
}
