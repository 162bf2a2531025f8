package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetSizeCommand() *cobra.Command {
	var target string
	var fraction float64
	var days int
	cmd := newCommand("size TEMPLATE/PRESET", "Recommend a size for a preset by its claims",
		`Recommends how many prebuilds a preset should have, so that a claim finds one ready as often as
--target says. It computes this from what was claimed in the last days and how long a prebuild takes.

The recommendation is the smallest size that would have reached the target, had it been there. The others are the sizes
of two models for the busiest hour, which know of no bursts, and what autosize would have done. With idle_cost_per_hour in
the template, idle hours are money, too.`,
		"  prewarm preset size quickstart/default\n  prewarm preset size quickstart/default --target 99.5% --days 7",
		show(a, ofPreset(func(c *sdk.Client, ctx context.Context, template, preset string) (sdk.PresetSize, error) {
			return c.PresetSize(ctx, template, preset, days, fraction)
		}), a.sizeText))
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if fraction, err = targetFlag(target); err != nil {
			return err
		}
		return checkDays(days)
	}
	cmd.Flags().StringVar(&target, "target", "", "hit rate aimed at; the preset's own or 99% where empty")
	cmd.Flags().IntVar(&days, "days", 14, "how far to look back, at most 30")
	return cmd
}

// targetFlag reads a percentage as a fraction; 0 where there is none.
func targetFlag(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	value, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") {
		return 0, usageErrorf("--target %q is not a percentage: write it like 99%% or 99.5%%", s)
	}
	if !(value > 0 && value < 100) {
		return 0, usageErrorf("--target is %s: it must be above 0%% and below 100%%", s)
	}
	return value / 100, nil
}

func checkDays(days int) error {
	return usageErrorIf(days < 1 || days > 30, "--days is %d: it must be between 1 and 30", days)
}

func (a *app) sizeText(s sdk.PresetSize) string {
	t := a.pastTable(s.PresetPast)
	t.add("Busiest hour", plural(s.Busiest, "claim"))
	t.add("Target", percent(s.Target))
	t.add("Recommended", fmt.Sprintf("%d (%s)", s.Recommended, s.Why))
	t.add("Models", fmt.Sprintf("%d where a miss waits, %d where it goes cold, in the busiest hour", s.ModelWaits, s.ModelCold))
	t.add("Autosize", autosizeText(s.Autosize))
	if s.Autosize != nil && s.Autosize.Unattainable != "" {
		t.add("Target not reached", cell{s.Autosize.Unattainable, yellow})
	}
	if s.Autosize != nil {
		addAttained(t, s.Autosize.Attained)
	}
	return t.String() + a.outcomesText(s.PresetPast, s.Outcomes)
}

func autosizeText(s *sdk.Autosize) string {
	if s == nil {
		return "off"
	}
	text := fmt.Sprintf("%s, %d to %d, target %s: ", s.Mode, s.Min, s.Max, percent(s.Target))
	if s.Size == nil {
		return text + "not computed yet"
	}
	return text + fmt.Sprintf("now %d (%s; forecast %d, recent %d, boost %.2f)", *s.Size, s.Reason, s.Forecast, s.Recent, s.Boost)
}

// addAttained says how many claims hit of late, and why not more where that is below the target.
func addAttained(t *table, attained []sdk.Attained) {
	for _, a := range attained {
		if a.Claims == 0 {
			continue
		}
		of := "Last day"
		if a.Days > 1 {
			of = fmt.Sprintf("Last %d days", a.Days)
		}
		text := cell{text: fmt.Sprintf("%s of %s hit, target %s", percent(float64(a.Hits)/float64(a.Claims)), plural(a.Claims, "claim"),
			percent(a.Target))}
		if a.Why != "" {
			text = cell{text.text + "; " + a.Why, yellow}
		}
		t.add(of, text)
	}
}

// pastTable is what the figures rest on.
func (a *app) pastTable(p sdk.PresetPast) *table {
	t := a.newTable()
	t.add("Preset", p.Template+"/"+p.Preset)
	t.add("Instances", p.Instances)
	form := time.DateOnly
	if p.To.Sub(p.From) < 48*time.Hour {
		form = "2006-01-02 15:04"
	}
	since := p.From.UTC().Format(form) + " to " + p.To.UTC().Format(form)
	if p.Cut {
		since += " (there were more claims before: too many to look at)"
	}
	t.add("Looked at", since)
	claims := plural(p.Claims, "claim")
	if p.Claims > 0 {
		claims += fmt.Sprintf(", %s of them hits", percent(float64(p.Hits)/float64(p.Claims)))
	}
	t.add("Claims", claims)
	t.add("Provision time", (time.Duration(p.ProvisionSeconds*10) * (time.Second / 10)).String())
	return t
}

// outcomesText compares sizes; what they cost only where the template says what an hour does.
func (a *app) outcomesText(p sdk.PresetPast, outcomes []sdk.SizeOutcome) string {
	heading := []string{"SIZE", "HIT RATE", "IDLE HOURS", "MEAN IDLE", "PEAK"}
	if p.IdleCostPerHour > 0 {
		heading = append(heading, "IDLE COST", "COST PER CLAIM")
	}
	t := a.newTable(heading...)
	for _, o := range outcomes {
		row := []any{o.Size, percent(o.HitRate), fmt.Sprintf("%.1f", o.IdleHours), fmt.Sprintf("%.1f", o.MeanIdle), o.Peak}
		if p.IdleCostPerHour > 0 {
			row = append(row, fmt.Sprintf("%.2f", o.IdleCost), fmt.Sprintf("%.4f", o.CostPerClaim))
		}
		t.add(row...)
	}
	return "\n" + t.String()
}

// percent writes a fraction with as many digits as matter: 99.05%, 99%.
func percent(fraction float64) string {
	s := strconv.FormatFloat(100*fraction, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
