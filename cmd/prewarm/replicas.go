package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) replicasCommand() *cobra.Command {
	return newCommand("replicas", "List the server processes",
		`Lists the replicas: equal server processes over one database. A stale one has not been heard of for a
while; its work is taken over by the others.`,
		"  prewarm replicas",
		list(a, view[sdk.Replica]{
			ask: noArg((*sdk.Client).Replicas), text: a.replicasText,
			none: "No replica has reported yet. Look again in a moment.",
		}))
}

func (a *app) replicasText(replicas []sdk.Replica) string {
	t := a.newTable("NAME", "STATE", "VERSION", "ADDRESS", "STARTED", "HEARD OF", "LAST PASS", "SITES")
	for _, r := range replicas {
		lastPass := ""
		if r.LastPass {
			lastPass = "yes"
		}
		t.add(r.Name, stateCell(r.State), r.Version, r.Address, a.ago(r.StartedAt), a.ago(r.HeartbeatAt), lastPass,
			strings.Join(r.Sites, ", "))
	}
	return t.String()
}
