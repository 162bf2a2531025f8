package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	forgeLooks = time.Second
	// hookLooks is how often the forge itself is asked for its webhook.
	hookLooks = 10 * time.Second
)

func (a *app) forgeWaitCommand() *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := newCommand("wait FORGE", "Wait until an entity works, or until its jobs are served",
		`Waits until an entity works. The last round with its forge must have succeeded, and one with the
credential that it has now. Its webhook must be there. A webhook that Prewarm did not install is there when it has
delivered something.

With --for served it waits until none of its jobs waits for a runner, and all deliveries are handled.

What is missing is printed on stderr whenever it changes. The exit status is 1 after --timeout, and at once for an entity
that is stopped: waiting does not end that.`,
		`  prewarm forge wait acme
  prewarm forge wait acme --for served --timeout 10m -o json`,
		show(a, func(c *sdk.Client, ctx context.Context, name string) (sdk.ForgeEntity, error) {
			w := &forgeWait{app: a, client: c, name: name, until: until, ends: a.clock.Now().Add(timeout), timeout: timeout}
			err := a.poll(ctx, forgeLooks, func() (bool, error) { return w.look(ctx) }, "forge", "wait")
			return w.last, err
		}, a.forgeText))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if until != "works" && until != "served" {
			return usageErrorf("unknown --for %q: it is works or served", until)
		}
		return usageErrorIf(timeout <= 0, "--timeout must be more than 0")
	}
	cmd.Flags().StringVar(&until, "for", "works", "what for: works or served")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long at most")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"works", "served"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// forgeWait looks at an entity until it is as wanted.
type forgeWait struct {
	*app
	client      *sdk.Client
	name, until string
	timeout     time.Duration
	ends        time.Time
	last        sdk.ForgeEntity
	shown       string
	// What the forge last said of its webhook, and when it is asked again.
	hook      string
	hookAgain time.Time
}

// look says whether it is done, and prints what is missing where that has changed. A server that is away for a moment does not
// end it, one that refuses does.
func (w *forgeWait) look(ctx context.Context) (bool, error) {
	missing, err := w.missing(ctx)
	switch status := sdk.StatusOf(err); {
	case err != nil && (ctx.Err() != nil || status != 0 && status < http.StatusInternalServerError):
		return false, err
	case err != nil:
		missing = w.explain(err)
	case w.last.StoppedAt != nil:
		return false, xerrors.Errorf("forge %s is stopped: %s (start it with %q)", w.name, w.last.Stopped, "prewarm forge start "+w.name)
	case missing == "":
		return true, nil
	}
	if missing != w.shown {
		w.shown = missing
		w.hint("forge %s: %s", w.name, printable.Text(missing))
	}
	if !w.clock.Now().Before(w.ends) {
		return false, xerrors.Errorf("forge %s: after %s still %s (see %q)", w.name, w.timeout, missing, "prewarm forge check "+w.name)
	}
	return false, nil
}

// missing is what there is to wait for yet; empty: nothing.
func (w *forgeWait) missing(ctx context.Context) (string, error) {
	f, err := w.client.Forge(ctx, w.name)
	if err != nil {
		return "", err
	}
	w.last = f
	switch {
	case f.StoppedAt != nil:
		return "", nil
	case w.until == "served":
		return unserved(f), nil
	case f.Status.Error != "":
		return "the last round failed: " + f.Status.Error, nil
	case !f.Status.Checked:
		return "no round has succeeded with its credential", nil
	case f.HookID == 0 && f.Status.DeliveryAt != nil:
		return "", nil
	case f.HookID == 0:
		return fmt.Sprintf("no webhook was installed by Prewarm, and nothing was delivered by another (%q installs one)",
			"prewarm forge webhook install "+w.name), nil
	}
	return w.lookAtHook(ctx)
}

func unserved(f sdk.ForgeEntity) string {
	switch {
	case f.Status.Waiting > 0:
		return fmt.Sprintf("%d deliveries are not handled", f.Status.Waiting)
	case f.Unserved > 0:
		return fmt.Sprintf("%d jobs wait for a runner, %d of them for one that no preset has (see %q)", f.Queued, f.Unserved,
			"prewarm job list --unserved --forge "+f.Name)
	case f.Queued > 0:
		return fmt.Sprintf("%d jobs wait for a runner", f.Queued)
	}
	return ""
}

// lookAtHook asks the forge for its webhook, now and then.
func (w *forgeWait) lookAtHook(ctx context.Context) (string, error) {
	now := w.clock.Now()
	if w.hook != "" && now.Before(w.hookAgain) {
		return w.hook, nil
	}
	w.hookAgain = now.Add(hookLooks)
	hook, err := w.client.ForgeHook(ctx, w.name)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", err
	case err != nil: // also a 404 of the forge: it may be installed again meanwhile
		w.hook = "its webhook cannot be seen: " + err.Error()
	case !hook.Active:
		w.hook = "its webhook is switched off at the forge"
	case !slices.Contains(hook.Events, "workflow_job"):
		w.hook = "its webhook does not have the event workflow_job"
	default:
		w.hook = ""
	}
	return w.hook, nil
}
