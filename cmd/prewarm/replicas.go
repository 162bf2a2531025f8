package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) replicasCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replicas",
		Short: "List the server processes",
		Long: `Lists the replicas: equal server processes over one database. A stale one has not been heard of for a
while; its work is taken over by the others.`,
		Example: "  prewarm replicas",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			replicas, err := client.Replicas(cmd.Context())
			if err != nil {
				return err
			}
			if len(replicas) == 0 {
				a.hint("No replica has reported yet. Look again in a moment.")
			}
			t := a.newTable("NAME", "STATE", "VERSION", "ADDRESS", "STARTED", "HEARD OF", "LAST PASS", "SITES")
			for _, r := range replicas {
				lastPass := ""
				if r.LastPass {
					lastPass = "yes"
				}
				t.add(r.Name, stateCell(r.State), r.Version, r.Address, a.ago(r.StartedAt), a.ago(r.HeartbeatAt), lastPass,
					strings.Join(r.Sites, ", "))
			}
			return a.print(replicas, t.String())
		},
	}
}
