package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceReleaseCommand() *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := newCommand("release WORKSPACE", "Give a claimed workspace back",
		`Ends your claim on a workspace. What is in it is lost: it is drained and deleted. With --wait the
command returns when it is gone.`,
		"  prewarm workspace release prebuild-aebagbafaydqqcikbmga2 --wait",
		show(a, func(c *sdk.Client, ctx context.Context, ref string) (sdk.Workspace, error) {
			w, err := c.ReleaseWorkspace(ctx, ref)
			if err != nil || !wait {
				return w, err
			}
			return a.waitGone(ctx, c, w, timeout)
		}, stateText("Released")))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return usageErrorIf(timeout <= 0, "--timeout must be more than 0")
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is gone")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "with --wait, how long at most")
	return cmd
}

// waitGone looks again and again until the incarnation of a workspace that was released is over.
func (a *app) waitGone(
	ctx context.Context, client *sdk.Client, w sdk.Workspace, timeout time.Duration,
) (sdk.Workspace, error) {
	const interval = 200 * time.Millisecond
	if w.State != "draining" && w.State != "deleting" { // used again already, or gone
		return w, nil
	}
	last, waited := w, time.Duration(0)
	err := a.poll(ctx, interval, func() (gone bool, err error) {
		now, err := client.Workspace(ctx, w.ID.String())
		switch {
		case sdk.StatusOf(err) == http.StatusNotFound:
			last.State = "deleted"
			return true, nil
		case err != nil:
			return false, err
		}
		last = now
		if now.State == "deleted" || now.Incarnation != w.Incarnation {
			return true, nil
		}
		if waited += interval; waited >= timeout {
			return false, xerrors.Errorf("workspace %s is still %s after %s (see %q)",
				now.Name, now.State, timeout, "prewarm workspace show "+now.Name)
		}
		return false, nil
	}, "workspace", "wait")
	last.History = nil // as in the answer of a release without --wait
	return last, err
}

// poll looks at once, and then every so often, until look says that it is done or fails.
func (a *app) poll(ctx context.Context, every time.Duration, look func() (done bool, err error), tags ...string) error {
	errDone := errors.New("done")
	each := func() error {
		if done, err := look(); err != nil || !done {
			return err
		}
		return errDone
	}
	err := each()
	if err == nil {
		err = a.clock.TickerFunc(ctx, every, each, tags...).Wait(tags...)
	}
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}
