package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetListCommand() *cobra.Command {
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List presets with the counts of their pools",
		Long: `Lists all presets with the counts of their pools.

With --watch it goes on until interrupted: a terminal is drawn again in place; elsewhere there is one line for each
preset that changed, and with -o json one array, on one line, for each change.`,
		Example: "  prewarm preset list\n  prewarm preset list --watch\n  prewarm preset list -o json",
		Args:    exactArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval <= 0 {
				return usageErrorf("--interval must be more than 0")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if watch {
				return a.watchPresets(cmd.Context(), client, interval)
			}
			presets, err := client.Presets(cmd.Context())
			if err != nil {
				return err
			}
			if len(presets) == 0 {
				a.hint("There are no presets yet. Make some with: prewarm apply -f examples/quickstart.yaml")
			}
			return a.print(presets, a.presetTable(presets).write)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on showing changes until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "with --watch, how often to look")
	return cmd
}

// watchPresets shows the presets again at every change. A server that is away for a while does not end it, one that
// refuses does. An interrupt is its normal end.
func (a *app) watchPresets(ctx context.Context, client *sdk.Client, interval time.Duration) error {
	show := a.presetChangesShower()
	presets, err := client.Presets(ctx)
	if err != nil {
		return err
	}
	if err := show(presets); err != nil {
		return err
	}
	away := false
	err = a.clock.TickerFunc(ctx, interval, func() error {
		presets, err := client.Presets(ctx)
		status := sdk.StatusOf(err)
		switch {
		case err == nil:
			away = false
			return show(presets)
		case ctx.Err() != nil || status != 0 && status < 500:
			return err
		case !away:
			away = true
			a.complain(a.explain(err))
		}
		return nil
	}, "preset", "watch").Wait("preset", "watch")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// presetChangesShower returns a func that is given each state in turn and shows what is new in it.
func (a *app) presetChangesShower() func([]sdk.Preset) error {
	_, isTerminal := terminal(a.stdout)
	var before []sdk.Preset
	var line string
	return func(presets []sdk.Preset) error {
		defer func() { before = presets }()
		switch {
		case a.output == "json":
			var out bytes.Buffer
			if err := writeJSON(&out, presets, ""); err != nil || out.String() == line {
				return err
			}
			line = out.String()
			_, err := io.WriteString(a.stdout, line)
			return err
		case isTerminal:
			return a.redraw(a.presetTable(presets))
		default:
			return a.writePresetChanges(before, presets)
		}
	}
}

// redraw replaces what is on the terminal, in one write so that it does not flicker.
func (a *app) redraw(t *table) error {
	const home, clearRest = "\x1b[H", "\x1b[J"
	screen := bytes.NewBufferString(home + clearRest)
	_, _ = fmt.Fprintf(screen, "%s   (Ctrl-C ends this)\n\n", a.clock.Now().Format(time.TimeOnly))
	if err := t.write(screen); err != nil {
		return err
	}
	if _, err := a.stdout.Write(screen.Bytes()); err != nil {
		return xerrors.Errorf("write table: %w", err)
	}
	return nil
}

// writePresetChanges writes a line for each preset that is new, changed or gone.
func (a *app) writePresetChanges(before, presets []sdk.Preset) error {
	old := map[string]string{}
	for _, p := range before {
		old[presetName(p)] = presetLine(p)
	}
	now := a.clock.Now().Format(time.TimeOnly)
	var lines bytes.Buffer
	for _, p := range presets {
		if line := presetLine(p); old[presetName(p)] != line {
			_, _ = fmt.Fprintln(&lines, now, line)
		}
		delete(old, presetName(p))
	}
	for _, name := range sortedKeys(old) {
		_, _ = fmt.Fprintln(&lines, now, name, "is gone")
	}
	if _, err := io.Copy(a.stdout, &lines); err != nil {
		return xerrors.Errorf("write changes: %w", err)
	}
	return nil
}

func presetLine(p sdk.Preset) string {
	line := fmt.Sprintf("%s version=%d desired=%d actual=%d eligible=%d starting=%d stopping=%d deleting=%d outdated=%d "+
		"extraneous=%d expired=%d claimed=%d", presetName(p), p.Version, p.Desired, p.Actual, p.Eligible, p.Starting,
		p.Stopping, p.Deleting, p.Outdated, p.Extraneous, p.Expired, p.Claimed)
	if p.Runner != nil {
		line += fmt.Sprintf(" queued=%d", p.Queued)
	}
	if note := oneLine(noteCell(p).text); note != "" {
		line += " (" + note + ")"
	}
	return line
}
