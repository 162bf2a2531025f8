package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) notifyCommand() *cobra.Command {
	return a.group("notify", "See the notifications sent by webhook",
		`The server notifies people by the webhook of "prewarm server --notify-url" when they must act. Examples are a
preset whose creation stopped, a target that cannot be reached, and passes that do not succeed any more.`,
		"  prewarm admin notify test",
		a.notifyTestCommand(), a.notifyListCommand())
}

func (a *app) notifyTestCommand() *cobra.Command {
	return newCommand("test", "Send a notification, to see whether it arrives",
		`Sends a notification of the kind "test" the way that all go, and says how the first attempt ended. The exit
status is 1 if it was not delivered; it is tried again all the same.`,
		"  prewarm admin notify test",
		a.asks(func(ctx context.Context, c *sdk.Client, _ string) error {
			n, err := c.TestNotification(ctx)
			if err != nil {
				return err
			}
			text := ""
			if n.State == "delivered" {
				text = fmt.Sprintf("Delivered: %s\n", n.ID)
			}
			err = a.print(n, text)
			if err == nil && n.State != "delivered" {
				err = xerrors.Errorf("not delivered after %d attempts: %s", n.Attempts, cmp.Or(n.LastError, "no answer yet"))
			}
			return err
		}))
}

func (a *app) notifyListCommand() *cobra.Command {
	return newCommand("list", "List the last notifications",
		"Lists the notifications that were sent or are to be sent, the newest first.",
		"  prewarm admin notify list",
		list(a, view[sdk.NotificationStatus]{
			ask: noArg((*sdk.Client).Notifications), text: a.notificationsText, none: "There was nothing to tell.",
		}))
}

func (a *app) notificationsText(list []sdk.NotificationStatus) string {
	t := a.newTable("KIND", "PRESET", "SINCE", "ENDED", "STATE", "ATTEMPTS", "DETAIL")
	for _, n := range list {
		t.add(n.Kind, slashed(n.Template, n.Preset), a.ago(n.At), a.agoOr(n.EndedAt, ""), n.State, n.Attempts, n.Detail)
	}
	return t.String()
}
