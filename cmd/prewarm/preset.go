package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetCommand() *cobra.Command {
	return a.group("preset", "See presets and how full their pools are",
		`A preset is a named set of parameters of a template; with a prebuilds block it is a pool, which is kept filled
with prebuilds. Presets are made and changed with "prewarm apply".`,
		"  prewarm preset list --watch",
		a.presetListCommand(), a.presetShowCommand(), a.presetExplainCommand(), a.presetNudgeCommand(),
		a.presetScheduleCommand(),
		a.presetFailuresCommand(), a.presetResetCommand(), a.presetInvalidateCommand(), a.presetSizeCommand(),
		a.presetReplayCommand())
}

func presetName(p sdk.Preset) string { return p.Template + "/" + p.Preset }

// listWidth is how many columns a line of a list has at most.
const listWidth = 100

func (a *app) presetsText(presets []sdk.Preset) string {
	if a.output == "wide" {
		return a.presetsWide(presets)
	}
	t := a.newTable("PRESET", "READY", "CLAIMED", "STATUS")
	t.width = listWidth
	for _, p := range presets {
		ready := actualCell(p)
		ready.text = fmt.Sprintf("%d/%d", p.Actual, p.Desired)
		t.add(presetName(p), ready, p.Claimed, statusCell(p))
	}
	return t.String()
}

// statusCell is the note on a preset, and where there is none how its pool is.
func statusCell(p sdk.Preset) cell {
	status := noteCell(p)
	switch {
	case status.text != "":
	case p.Desired == 0:
		status.text = "scaled to 0"
	case p.Actual >= p.Desired:
		status = cell{"ready", green}
	default:
		status.text = fmt.Sprintf("%d starting", p.Starting)
	}
	if p.Queued > 0 {
		status.text = fmt.Sprintf("%d queued; %s", p.Queued, status.text)
	}
	return status
}

// presetsWide has a column for jobs that wait only where any preset is one of runners.
func (a *app) presetsWide(presets []sdk.Preset) string {
	head := []string{
		"PRESET", "VERSION", "DESIRED", "ACTUAL", "ELIGIBLE", "STARTING", "STOPPING", "DELETING", "OUTDATED", "EXTRANEOUS",
		"EXPIRED", "CLAIMED",
	}
	runners := slices.ContainsFunc(presets, func(p sdk.Preset) bool { return p.Runner != nil })
	if runners {
		head = append(head, "QUEUED")
	}
	t := a.newTable(append(head, "NOTE")...)
	for _, p := range presets {
		row := []any{
			presetName(p), p.Version, p.Desired, actualCell(p), p.Eligible, p.Starting, p.Stopping, p.Deleting, p.Outdated,
			p.Extraneous, p.Expired, p.Claimed,
		}
		switch {
		case p.Runner != nil:
			row = append(row, p.Queued)
		case runners:
			row = append(row, "")
		}
		t.add(append(row, noteCell(p))...)
	}
	return t.String()
}

// runnerText is what a preset of runners is, in a line.
func runnerText(r sdk.RunnerSettings) string {
	text := fmt.Sprintf("of forge %s, labels %s", r.Forge, strings.Join(r.Labels, ", "))
	if r.Group != "" {
		text += ", group " + r.Group
	}
	if r.Maximum > 0 {
		text += fmt.Sprintf(", at most %d", r.Maximum)
	}
	return text
}

func actualCell(p sdk.Preset) cell {
	c := cell{text: fmt.Sprint(p.Actual)}
	switch {
	case p.Desired == 0:
	case p.Actual >= p.Desired:
		c.style = green
	case p.Eligible == 0:
		c.style = red
	default:
		c.style = yellow
	}
	return c
}

// noteCell is the one thing most worth knowing of a preset.
func noteCell(p sdk.Preset) cell {
	switch {
	case p.Error != "":
		return cell{"error: " + printable.Headline(p.Error), red}
	case p.Paused != "":
		return cell{"paused, " + p.Paused, yellow}
	case p.Failures > 0:
		return cell{failuresNote(p), red}
	case len(p.Reasons) > 0:
		return cell{p.Reasons[0], plain}
	case p.Unattainable != "":
		return cell{"target not reached: " + p.Unattainable, yellow}
	case !p.Pool:
		return cell{"not a pool", plain}
	default:
		return cell{}
	}
}

// failuresNote says from the first failed create on why the pool may not fill.
func failuresNote(p sdk.Preset) string {
	note := "the last create failed"
	if p.Failures > 1 {
		note = fmt.Sprintf("the last %d creates failed", p.Failures)
	}
	if p.Fault != "" {
		note += ": " + printable.Headline(p.Fault)
	}
	return note
}

func (a *app) presetShowCommand() *cobra.Command {
	return newCommand("show TEMPLATE/PRESET", "Show one preset, its counts and the reasons for them",
		`Shows one preset: the counts of its pool, why the last pass decided as it did, and what it could not do.

Every unclaimed workspace is in exactly one of actual, starting, stopping, deleting, outdated, expired and
quarantined. Eligible is what a claim could take now; extraneous is the surplus.`,
		"  prewarm preset show quickstart/default",
		show(a, ofPreset((*sdk.Client).Preset), a.presetDetails))
}

func (a *app) presetDetails(p sdk.Preset) string {
	t := a.newTable()
	t.add("Preset", presetName(p))
	t.add("Organization", p.Organization)
	t.add("Version", p.Version)
	t.add("Provider", p.Provider)
	t.addIf("Parameters", pairs(p.Parameters))
	t.addIf("TTL", p.TTL)
	t.addIf("Min remaining", p.MinRemaining)
	if p.Runner != nil {
		t.add("Runners", runnerText(*p.Runner))
	}
	t.add("Priority", p.Priority)
	desired := fmt.Sprint(p.Desired)
	if p.Scheduled {
		desired += " (by its schedule)"
	}
	t.add("Desired", desired)
	actual := actualCell(p)
	t.add("Actual", actual)
	if p.Standby > 0 {
		t.add("Standby", fmt.Sprintf("%d of the actual", p.Standby))
	}
	t.add("Eligible", p.Eligible)
	t.add("Starting", p.Starting)
	t.add("Stopping", p.Stopping)
	t.add("Deleting", p.Deleting)
	t.add("Outdated", p.Outdated)
	t.add("Extraneous", p.Extraneous)
	t.add("Expired", p.Expired)
	t.add("Quarantined", p.Quarantined)
	if p.Runner != nil {
		t.add("Jobs queued", p.Queued)
		t.add("Busy", p.Claimed)
	} else {
		t.add("Waiting", p.Waiting)
		t.add("Claimed", p.Claimed)
	}
	if r := p.Rollout; r != nil {
		rollout := cell{fmt.Sprintf("%s: %d of %d ready, %d outdated kept", r.Phase, r.Ready, r.Desired, r.Outdated), plain}
		if r.Phase == "stopped" {
			rollout.style = red
		}
		t.add("Rollout", rollout)
	}
	t.addIf("Target not reached", cell{p.Unattainable, yellow})
	if p.Paused != "" {
		t.add("Paused", cell{p.Paused + " (ends: " + a.agoOr(p.PausedUntil, "when resumed") + ")", yellow})
	}
	label := "Reasons"
	for _, reason := range p.Reasons {
		t.add(label, reason)
		label = ""
	}
	if p.Failures > 0 {
		t.add("Failures", cell{failuresNote(p), red})
	}
	t.addIf("Error", cell{p.Error, red})
	t.add("Decided", a.agoOr(p.PassedAt, "never"))
	return t.String()
}

// pairs writes a map as k=v, in order.
func pairs(m map[string]string) string {
	list := lists.Of(sortedKeys(m), func(k string) string { return k + "=" + m[k] })
	return strings.Join(list, ", ")
}

func (a *app) presetNudgeCommand() *cobra.Command {
	return newCommand("nudge TEMPLATE/PRESET", "Ask for a pass over a preset now",
		`Asks the server to look at the preset's template now instead of at the next tick. A nudge changes
nothing by itself and can be repeated at will.`,
		"  prewarm preset nudge quickstart/default",
		act(a, onPreset((*sdk.Client).NudgePreset), "nudged", "Nudged %s.\n"))
}
