package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) notifyCommand() *cobra.Command {
	return a.group("notify", "See what people are told by webhook",
		`The server tells people, by the webhook of "prewarm server --notify-url", of what will not mend itself: a preset
whose creation stopped, a target that cannot be reached, passes that do not succeed any more.`,
		"  prewarm admin notify test",
		a.notifyTestCommand(), a.notifyListCommand())
}

func (a *app) notifyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test",
		Short: "Send a notification, to see whether it arrives",
		Long: `Sends a notification of the kind "test" the way that all go, and says what became of the first attempt. The exit
status is 1 if it was not delivered; it is tried again all the same.`,
		Example: "  prewarm admin notify test",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			n, err := client.TestNotification(cmd.Context())
			if err != nil {
				return err
			}
			text := ""
			if n.State == "delivered" {
				text = fmt.Sprintf("Delivered: %s\n", n.ID)
			}
			err = a.print(n, text)
			if err == nil && n.State != "delivered" {
				err = xerrors.Errorf("not delivered after %d attempts: %s", n.Attempts, orNone(n.LastError, "no answer yet"))
			}
			return err
		},
	}
}

func (a *app) notifyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the last notifications",
		Long:    "Lists what people were told, or are to be told, the newest first.",
		Example: "  prewarm admin notify list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			list, err := client.Notifications(cmd.Context())
			if err != nil {
				return err
			}
			if len(list) == 0 {
				a.hint("There was nothing to tell.")
			}
			return a.printNotifications(list)
		},
	}
}

func (a *app) printNotifications(list []sdk.NotificationStatus) error {
	t := a.newTable("KIND", "PRESET", "SINCE", "ENDED", "STATE", "ATTEMPTS", "DETAIL")
	for _, n := range list {
		preset, ended := "", ""
		if n.Preset != "" {
			preset = n.Template + "/" + n.Preset
		}
		if n.EndedAt != nil {
			ended = a.ago(*n.EndedAt)
		}
		t.add(n.Kind, preset, a.ago(n.At), ended, n.State, n.Attempts, n.Detail)
	}
	return a.print(list, t.String())
}

func orNone(s, none string) string {
	if s == "" {
		return none
	}
	return s
}
