package main

import (
	"time"

	"github.com/spf13/cobra"
)

func (a *app) workspaceRenewCommand() *cobra.Command {
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "renew WORKSPACE",
		Short: "Renew the lease of a claimed workspace",
		Long: `Makes the lease of your claim last longer: from now on as long as it was asked for, or as --lease says. A
workspace whose lease is over is released by itself.`,
		Example: `  prewarm workspace renew prebuild-aebagbafaydqqcikbmga2
  prewarm workspace renew prebuild-aebagbafaydqqcikbmga2 --lease 8h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := ""
			if cmd.Flags().Changed("lease") {
				if lease < time.Second {
					return usageErrorf("--lease must be at least 1s")
				}
				asked = lease.String()
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			w, err := client.RenewWorkspace(cmd.Context(), args[0], asked)
			if err != nil {
				return err
			}
			return a.printf(w, "Renewed workspace %s: its lease ends %s.\n", w.Name, a.agoOr(w.LeaseUntil, "never"))
		},
	}
	cmd.Flags().DurationVar(&lease, "lease", 0, "how long from now; as it was asked for at first where left out")
	return cmd
}
