package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceLogsCommand() *cobra.Command {
	var follow, raw bool
	cmd := newCommand("logs WORKSPACE", "Show the output of a workspace",
		"Shows what a workspace wrote, from the beginning, where its provider keeps that. A terminal is shown colours, and "+
			"other control characters as escapes; a file or a pipe gets every byte as it is.",
		"  prewarm workspace logs prebuild-aebagbafaydqqcikbmga2 --follow",
		a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			logs, err := c.WorkspaceLogs(ctx, args[0], follow)
			if err != nil {
				return err
			}
			defer func() { _ = logs.Close() }()
			to := io.WriteCloser(keepOpen{a.stdout})
			if _, isTerminal := terminal(a.stdout); isTerminal && !raw {
				to = &printable.Writer{To: a.stdout}
			}
			_, err = io.Copy(to, logs)
			err = errors.Join(err, to.Close())
			if follow && ctx.Err() != nil {
				return nil // an interrupt is how one stops following
			}
			if err != nil {
				return xerrors.Errorf("read logs: %w", err)
			}
			return nil
		}))
	cmd.PreRunE = a.unanswered("logs are the workspace's own output")
	cmd.Flags().BoolVar(&raw, "raw", false, "show control characters to the terminal as they are, though a workspace can steer it with them")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the workspace is gone, or interrupted")
	return cmd
}

// keepOpen is a writer that others close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
