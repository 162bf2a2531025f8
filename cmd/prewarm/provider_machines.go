package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) providerMachinesCommand() *cobra.Command {
	cmd := newCommand("machines PROVIDER", "List a provider's machines: which are unused, and whose the others are",
		`Lists the machines of a provider whose machines exist beforehand, as each said when it was asked last:
used, unused, or possibly_used. Of the last nobody can say whether it is used; it is left alone until somebody can.
Machines are asked each minute, and by themselves when they are reserved or given back.`,
		"  prewarm provider machines fleet",
		list(a, view[sdk.Machine]{ask: (*sdk.Client).Machines, text: a.machinesText}))
	cmd.ValidArgsFunction = a.completeProviders(func(p sdk.Provider) bool { return p.Reserves })
	return cmd
}

func (a *app) machinesText(machines []sdk.Machine) string {
	t := a.newTable("MACHINE", "ADDRESS", "STATE", "WORKSPACE", "SEEN", "ERROR")
	for _, m := range machines {
		state := cell{m.State, green}
		if m.State == "possibly_used" {
			state = cell{m.State, red}
		}
		holder := cmp.Or(m.Workspace, m.Holder)
		if holder != "" && m.WorkspaceState != "" {
			holder += fmt.Sprintf(" (%s)", m.WorkspaceState)
		}
		seen := "never"
		if m.SeenAt != nil {
			seen = m.SeenAt.UTC().Format(time.RFC3339)
		}
		t.add(m.Machine, m.Address, state, holder, seen, m.Error)
	}
	return t.String()
}
