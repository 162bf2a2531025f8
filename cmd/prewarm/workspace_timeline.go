package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// timelineText tells every state that the workspace was in: since when, for how long, and by whom and why.
func (a *app) timelineText(w sdk.Workspace) string {
	if len(w.History) == 0 {
		return ""
	}
	t := a.newTable("WHEN", "FROM", "TO", "FOR", "BY", "REASON")
	incarnation := 1
	for _, h := range w.History {
		reason := cause(h)
		if h.Incarnation > incarnation {
			incarnation = h.Incarnation
			reason += fmt.Sprintf(" (incarnation %d)", incarnation)
		}
		t.add(a.ago(h.At), cmp.Or(h.From, "-"), stateCell(h.To), a.lasted(h), h.Actor, reason)
	}
	return "\n" + t.String()
}

// lasted is for how long the workspace was in the state, so far in the last one; it is deleted for ever.
func (a *app) lasted(h sdk.Transition) string {
	switch {
	case h.LastedMS != nil:
		return span(time.Duration(*h.LastedMS) * time.Millisecond)
	case h.To == "deleted":
		return ""
	default:
		return span(max(0, a.clock.Since(h.At))) + " so far"
	}
}

// span is a duration with as much of it as matters: 12ms, 3.4s, 5m20s, 2h5m, 3d4h.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// cause is the reason, with what the job behind it had met.
func cause(h sdk.Transition) string {
	if h.Failures == 0 || h.Job == "" {
		return h.Reason
	}
	failed := fmt.Sprintf("%s failed %s", h.Job, times(h.Failures))
	if h.Error != "" {
		failed += ", last: " + printable.Headline(h.Error)
	}
	if h.Reason == "" {
		return failed
	}
	return h.Reason + "; " + failed
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// faultText shows a fault of several lines in full.
func faultText(w sdk.Workspace) string {
	fault := strings.TrimSpace(printable.Text(w.Fault))
	if !strings.Contains(fault, "\n") {
		return ""
	}
	return "\nThe fault in full:\n" + fault + "\n"
}

// evidenceText shows the end of what a workspace wrote before it failed.
func evidenceText(w sdk.Workspace) string {
	if w.Evidence == "" {
		return ""
	}
	return "\nThe end of its output when it failed:\n" + strings.TrimRight(printable.Text(w.Evidence), "\n") + "\n"
}
