package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// watchFlags are those of a listing that can go on.
type watchFlags struct {
	on       bool
	interval time.Duration
}

// watchHelp is what a listing's help says of --watch; what: one of what is listed.
func watchHelp(what string) string {
	return `

With --watch it goes on until interrupted. A terminal is drawn again in place. Elsewhere there is one line for each
` + what + ` that changed. With -o json there is one array, on one line, for each change; with -o yaml one document.`
}

func (f *watchFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.on, "watch", "w", false, "go on showing changes until interrupted")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "with --watch, how often to look")
}

func (f *watchFlags) check(*cobra.Command, []string) error {
	return usageErrorIf(f.interval <= 0, "--interval must be more than 0")
}

// watchView shows the listing again at every change. A server that is away for a while does not end it, one that refuses does.
// An interrupt is its normal end.
func watchView[T any](ctx context.Context, a *app, v view[T], look func(context.Context) ([]T, error)) error {
	show := changesShower(a, v)
	all, err := look(ctx)
	if err != nil {
		return err
	}
	if err := show(all); err != nil {
		return err
	}
	away := false
	err = a.clock.TickerFunc(ctx, v.watch.interval, func() error {
		all, err := look(ctx)
		status := sdk.StatusOf(err)
		switch {
		case err == nil:
			away = false
			return show(all)
		case ctx.Err() != nil || status != 0 && status < 500:
			return err
		case !away:
			away = true
			a.complain(a.explain(err))
		}
		return nil
	}, "watch").Wait("watch")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// changesShower returns a func that is given each state in turn and shows what is new in it.
func changesShower[T any](a *app, v view[T]) func([]T) error {
	_, isTerminal := terminal(a.stdout)
	var before []T
	var compared string
	return func(all []T) error {
		defer func() { before = all }()
		switch {
		case a.machine():
			same, err := v.same(all)
			if err != nil || same == compared {
				return err
			}
			compared = same
			text, err := a.machineText(all, "")
			if err != nil {
				return err
			}
			if a.output == "yaml" {
				text = "---\n" + text
			}
			return a.write(text)
		case isTerminal:
			return a.redraw(v.text(all))
		default:
			return writeChanges(a, v, before, all)
		}
	}
}

// same is equal for states between which nothing has changed.
func (v view[T]) same(all []T) (string, error) {
	if v.still != nil {
		all = lists.Of(all, v.still)
	}
	return jsonText(all, "")
}

// redraw replaces what is on the terminal, in one write so that it does not flicker.
func (a *app) redraw(text string) error {
	const home, clearRest = "\x1b[H", "\x1b[J"
	return a.write(home + clearRest + a.clock.Now().Format(time.TimeOnly) + "   (Ctrl-C ends this)\n\n" + text)
}

// writeChanges writes a line for each that is new, changed or gone.
func writeChanges[T any](a *app, v view[T], before, all []T) error {
	old := lists.Keyed(before, func(it T) (string, string) { return v.name(it), v.line(it) })
	now := a.clock.Now().Format(time.TimeOnly)
	var lines strings.Builder
	for _, it := range all {
		if line := v.line(it); old[v.name(it)] != line {
			_, _ = fmt.Fprintln(&lines, now, oneLine(line))
		}
		delete(old, v.name(it))
	}
	for _, name := range sortedKeys(old) {
		_, _ = fmt.Fprintln(&lines, now, oneLine(name), "is gone")
	}
	return a.write(lines.String())
}

// noted is a line with a note, where there is one.
func noted(line, note string) string {
	if note = oneLine(note); note != "" {
		line += " (" + note + ")"
	}
	return line
}
