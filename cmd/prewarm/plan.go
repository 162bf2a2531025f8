package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) planCommand() *cobra.Command {
	var req sdk.PlanRequest
	cmd := newCommand("plan", "Say what the next pass would do, with a file applied or not",
		`Says what the next pass would create, cancel and drain, for each pool and why, and changes nothing. With -f
it is said for the state that an apply of the file would make; "-" reads standard input. Directories of modules are
uploaded, as "prewarm apply" does.

A plan has an id. Then "prewarm apply --plan ID" applies its file only if nothing that the plan depends on has moved.
That is what the file changes, and what is planned for the pools that it touches. Plans are kept for a day.`,
		`  prewarm plan
  prewarm plan -f examples/quickstart.yaml
  prewarm plan -f examples/quickstart.yaml -o json`,
		a.asks(func(ctx context.Context, c *sdk.Client, _ string) error {
			var err error
			if req.Document, err = a.withModules(ctx, c, req.File, req.Document); err != nil {
				return err
			}
			plan, err := c.MakePlan(ctx, req)
			if err != nil {
				return err
			}
			if err := a.print(plan, a.planText(plan, req.File != "")); err != nil {
				return err
			}
			if req.File != "" && len(plan.Changes) > 0 && a.output == "table" {
				a.hint("Nothing was changed. To do exactly this: prewarm apply --plan %s", plan.ID)
			}
			return nil
		}))
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		file := req.File
		req.File, req.Document, err = a.readDocument(file)
		if err == nil && file != "" && strings.TrimSpace(req.Document) == "" {
			return usageErrorf("%s is empty", file)
		}
		return err
	}
	cmd.Flags().StringVarP(&req.File, "file", "f", "", "a file to plan with; - is standard input")
	return cmd
}

func (a *app) planText(plan sdk.Plan, withFile bool) string {
	changes := ""
	if withFile {
		changes = a.changesText(plan.Changes) + "\n"
	}
	t := a.newTable("PRESET", "COUNT", "WHAT", "RULE", "WHY")
	for _, p := range plan.Presets {
		name := p.Template + "/" + p.Preset
		if p.Error != "" {
			t.add(name, "", cell{"error", red}, "", p.Error)
			continue
		}
		for _, l := range p.Lines {
			what := cell{text: l.Label}
			count := l.Count
			switch l.Label {
			case "create":
				what.style = green
			case "drain", "cancel":
				what.style = red
			case "held back":
				count = -count
			case "keep", "rollout":
			default:
				continue // how it came about is for explain and -o json
			}
			if count != 0 {
				t.add(name, count, what, l.Rule, l.Sentence)
			}
		}
	}
	sum := plan.Totals
	moves := ""
	if sum.Stop+sum.Start > 0 {
		moves = fmt.Sprintf(", stop %d, start %d", sum.Stop, sum.Start)
	}
	return changes + t.String() + fmt.Sprintf("Plan %s: create %d, cancel %d, drain %d%s.\n", plan.ID, sum.Create, sum.Cancel,
		sum.Drain, moves)
}
