package main

import (
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"
)

func (a *app) workspaceLogsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:               "logs WORKSPACE",
		Short:             "Show the output of a workspace",
		Long:              "Shows what a workspace wrote, from the beginning, where its provider keeps that.",
		Example:           "  prewarm workspace logs prebuild-aebagbafaydqqcikbmga2 --follow",
		Args:              exactArgs,
		ValidArgsFunction: a.completeWorkspaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.output != "table" {
				return usageErrorf("logs are the workspace's own output, so -o %s cannot be", a.output)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			logs, err := client.WorkspaceLogs(cmd.Context(), args[0], follow)
			if err != nil {
				return err
			}
			defer func() { _ = logs.Close() }()
			_, err = io.Copy(a.stdout, logs)
			if follow && cmd.Context().Err() != nil {
				return nil // an interrupt is how one stops following
			}
			if err != nil {
				return xerrors.Errorf("read logs: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the workspace is gone, or interrupted")
	return cmd
}
