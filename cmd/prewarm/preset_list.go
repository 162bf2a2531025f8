package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetListCommand() *cobra.Command {
	var watch watchFlags
	var filter string
	cmd := newCommand("list", "List presets with the counts of their pools",
		`Lists all presets: how many prebuilds are ready of those desired, how many workspaces are claimed, and the one
thing most worth knowing of each. -o wide shows all counts.`+watchHelp("preset"),
		"  prewarm preset list\n  prewarm preset list -o wide\n  prewarm preset list --filter linux\n  prewarm preset list --watch\n  prewarm preset list -o json",
		list(a, view[sdk.Preset]{
			ask: func(c *sdk.Client, ctx context.Context, _ string) ([]sdk.Preset, error) {
				all, err := c.Presets(ctx)
				return matching(all, filter), err
			},
			text: a.presetsText, watch: &watch, name: presetName, line: presetLine,
			none: "There are no presets yet. Make some with: prewarm apply -f examples/quickstart.yaml",
		}))
	cmd.Annotations = map[string]string{outputs: "table,wide,json,yaml"}
	cmd.PreRunE = watch.check
	filterFlag(cmd, &filter, "the name, the provider or the pause")
	watch.add(cmd)
	return cmd
}

// matching are the presets that have each word of a text, as the page of pools filters them.
func matching(all []sdk.Preset, text string) []sdk.Preset {
	words := strings.Fields(strings.ToLower(text))
	return slices.DeleteFunc(all, func(p sdk.Preset) bool {
		in := strings.ToLower(presetName(p) + " " + p.Provider + " " + p.Paused)
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(in, word) })
	})
}

func presetLine(p sdk.Preset) string {
	line := fmt.Sprintf("%s version=%d desired=%d actual=%d eligible=%d starting=%d stopping=%d deleting=%d outdated=%d "+
		"extraneous=%d expired=%d claimed=%d", presetName(p), p.Version, p.Desired, p.Actual, p.Eligible, p.Starting,
		p.Stopping, p.Deleting, p.Outdated, p.Extraneous, p.Expired, p.Claimed)
	if p.Runner != nil {
		line += fmt.Sprintf(" queued=%d", p.Queued)
	}
	return noted(line, noteCell(p).text)
}
