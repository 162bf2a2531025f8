package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// workingForge is one that nothing is wrong with.
func workingForge() sdk.ForgeEntity {
	f := testForge
	f.Queued, f.Unserved = 0, 0
	f.Status.Error, f.Status.Checked = "", true
	return f
}

var workingHook = sdk.ForgeHook{ID: 7, URL: "https://prewarm.example/webhooks/acme", Events: []string{"workflow_job"}, Active: true}

// looking runs a wait with time passing as fast as it can.
func looking(t *testing.T, sh *shell, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	trap := sh.clock.Trap().TickerFunc("forge", "wait")
	defer trap.Close()
	done := make(chan outcome, 1)
	go func() { done <- sh.run(append([]string{"forge", "wait", "acme"}, args...)...) }()
	trap.MustWait(ctx).MustRelease(ctx)
	for ctx.Err() == nil {
		select {
		case got := <-done:
			return got
		default:
			sh.clock.Advance(forgeLooks).MustWait(ctx)
		}
	}
	t.Fatal("it waits for ever")
	return outcome{}
}

// P1: an entity works when its last round succeeded, with the credential of now, and its webhook is there; each of them is waited
// for, and told once.
func TestForgeWait(t *testing.T) {
	t.Parallel()
	server := newFakeServer(t, answers(t))
	failing, unchecked, works := testForge, workingForge(), workingForge()
	unchecked.Status.Checked = false
	off, other := workingHook, workingHook
	off.Active, other.Events = false, []string{"push"}
	var looks, hooks atomic.Int32
	turn := func(n *atomic.Int32, all ...any) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			at := min(int(n.Add(1))-1, 2*len(all)-1) / 2 // each twice
			if code, is := all[at].(int); is {
				w.WriteHeader(code)
				return
			}
			_, _ = io.WriteString(w, mustJSON(t, all[at]))
		}
	}
	server.answer("GET /forges/acme", answer{handle: turn(&looks, failing, http.StatusInternalServerError, unchecked, works)})
	server.answer("GET /forges/acme/webhook", answer{handle: turn(&hooks, http.StatusNotFound, off, other, workingHook)})
	got := looking(t, newShell(t, server.URL), "-o", "json")
	if got.status != 0 || !strings.Contains(got.stdout, `"credential_checked": true`) {
		t.Fatal(got)
	}
	rest := got.stderr
	for _, told := range []string{
		"forge acme: the last round failed: the forge answered 502", "no round has succeeded with its credential",
		"its webhook cannot be seen", "its webhook is switched off", "does not have the event workflow_job",
	} {
		before, after, found := strings.Cut(rest, told)
		if !found || strings.Contains(after, told) {
			t.Errorf("%q is not told once, in its turn, after %q:\n%s", told, before, got.stderr)
		}
		rest = after
	}
	if strings.Contains(got.stderr, "\x1b") {
		t.Errorf("what the forge said is shown as it came: %q", got.stderr)
	}
	if hooks.Load() != 7 || looks.Load() < 60 { // the forge is asked each 10 s
		t.Errorf("%d looks at the entity, %d at the forge's webhook", looks.Load(), hooks.Load())
	}
}

// What ends a wait for the worse, and what it is that a wait is for.
func TestForgeWait_ends(t *testing.T) {
	t.Parallel()
	stopped, byHand, silent, queued, unserved := workingForge(), workingForge(), workingForge(), workingForge(), workingForge()
	stopped.Stopped, stopped.StoppedAt = "moving", ptr(before(time.Minute))
	byHand.HookID, silent.HookID, silent.Status.DeliveryAt = 0, 0, nil
	queued.Queued, unserved.Queued, unserved.Unserved = 2, 3, 1
	failing := testForge
	failing.Queued, failing.Unserved = 0, 0
	for name, test := range map[string]struct {
		forge  any
		args   []string
		status int
		stderr string
		waits  bool
	}{
		"stopped":           {forge: stopped, status: 1, stderr: `forge acme is stopped: moving (start it with "prewarm forge start acme")`},
		"made by hand":      {forge: byHand},
		"nothing comes":     {forge: silent, args: []string{"--timeout", "3s"}, status: 1, stderr: "after 3s still no webhook was installed", waits: true},
		"jobs wait":         {forge: queued, args: []string{"--for", "served", "--timeout", "3s"}, status: 1, stderr: "2 jobs wait for a runner", waits: true},
		"jobs are nobody's": {forge: unserved, args: []string{"--for", "served", "--timeout", "3s"}, status: 1, stderr: "1 of them for one that no preset has", waits: true},
		"jobs are served":   {forge: failing, args: []string{"--for", "served"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newFakeServer(t, answers(t))
			server.answer("GET /forges/acme", answer{body: mustJSON(t, test.forge)})
			sh := newShell(t, server.URL)
			var got outcome
			if test.waits {
				got = looking(t, sh, test.args...)
			} else {
				got = sh.run(append([]string{"forge", "wait", "acme"}, test.args...)...)
			}
			if got.status != test.status || !strings.Contains(got.stderr, test.stderr) {
				t.Error(got)
			}
		})
	}
}
