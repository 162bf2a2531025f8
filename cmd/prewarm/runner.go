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

func (a *app) runnerCommand() *cobra.Command {
	return a.group("runner", "See the runners of forges",
		"A runner is a workspace of a runner preset: it is deleted, entered and kept with \"prewarm workspace\".",
		"  prewarm runner list", a.runnerListCommand(), a.runnerShowCommand())
}

func (a *app) runnerListCommand() *cobra.Command {
	var filter sdk.RunnerFilter
	var watch watchFlags
	var limit int
	cmd := newCommand("list", "List runners",
		"Lists runners, newest first, page after page unless --limit ends it. The status is the forge's word."+
			watchHelp("runner"),
		"  prewarm runner list --forge acme --status active\n  prewarm runner list --filter linux\n  prewarm runner list --watch",
		list(a, view[sdk.Runner]{
			ask: func(c *sdk.Client, ctx context.Context, _ string) ([]sdk.Runner, error) {
				return readPages(limit, func(size int, after string) ([]sdk.Runner, string, error) {
					filter.Limit, filter.After = int32(size), after
					page, err := c.Runners(ctx, filter)
					return page.Runners, page.Next, err
				})
			},
			text: a.runnersText, none: "There are no such runners.", watch: &watch,
			name: func(r sdk.Runner) string { return r.Name }, line: runnerLine, still: stillRunner,
		}))
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		return cmp.Or(checkLimit(limit), watch.check(cmd, args))
	}
	f := cmd.Flags()
	f.StringVar(&filter.Forge, "forge", "", "only those of this entity")
	f.StringVar(&filter.Status, "status", "", "only those that are pending, idle, active, offline or gone at the forge")
	f.StringVar(&filter.Template, "template", "", "only those of this template")
	f.StringVar(&filter.Preset, "preset", "", "only those of presets of this name")
	filterFlag(cmd, &filter.Q, "the name, the pool, the forge, the labels or the job")
	f.BoolVar(&filter.Gone, "gone", false, "also those that there are no more")
	f.IntVar(&limit, "limit", 0, "at most so many; 0 is all")
	watch.add(cmd)
	a.completeFlag(cmd, "forge", "FORGE")
	return cmd
}

func (a *app) runnersText(runners []sdk.Runner) string {
	t := a.newTable("NAME", "PRESET", "FORGE", "STATE", "STATUS", "SINCE", "JOB")
	for _, r := range runners {
		t.add(r.Name, r.Template+"/"+r.Preset, r.Entity, stateCell(r.State), r.Status, a.ago(r.StatusAt), jobText(r.Job))
	}
	return t.String()
}

func runnerLine(r sdk.Runner) string {
	line := fmt.Sprintf("%s preset=%s/%s forge=%s state=%s status=%s", r.Name, r.Template, r.Preset, r.Entity, r.State, r.Status)
	return noted(line, jobText(r.Job))
}

// stillRunner is a runner without the time that each listing of the forge, and each look, changes.
func stillRunner(r sdk.Runner) sdk.Runner {
	r.StatusAt = time.Time{}
	if r.Job != nil {
		job := *r.Job
		job.WaitS = 0
		r.Job = &job
	}
	return r
}

func jobText(j *sdk.ForgeJob) string {
	if j == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s", j.Repository, j.Name)
}

func (a *app) runnerShowCommand() *cobra.Command {
	return newCommand("show RUNNER", "Show one runner",
		"Shows one runner, named by its name or the id of its workspace.",
		"  prewarm runner show prebuild-aebagbafaydqqcikbmga2",
		show(a, (*sdk.Client).Runner, a.runnerDetails))
}

func (a *app) runnerDetails(r sdk.Runner) string {
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
	return t.String()
}
