package explain

import (
	"fmt"
	"time"

	p "github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/printable"
)

// wording is how a code is said: some words, and what its arguments add. A sentence that quotes the reason goes on with the
// latter.
type wording struct {
	words string
	rest  func(p.Args) string
}

var wordings = map[p.Code]wording{
	p.Autosized:          {"autosize, by the preset's claims", nil},
	p.Scheduled:          {"schedule ", func(a p.Args) string { return fmt.Sprintf("%q in %s", a.Cron, a.Timezone) }},
	p.TemplateDeleted:    {"template deleted", nil},
	p.PresetRemoved:      {"preset removed", nil},
	p.TemplateDeprecated: {"template deprecated", nil},
	p.ProviderDeleted:    {"provider deleted", nil},

	p.ForgeDrained: {"forge stopped and drained: ", stopped},
	p.ForgeStopped: {"forge stopped: ", stopped},

	p.JobsWait:    {"jobs wait for a runner", nil},
	p.AtJobs:      {"they have a job, and stay", nil},
	p.ExpiresSoon: {"expires soon", nil},

	p.Paused:      {"paused: ", func(a p.Args) string { return a.Cause }},
	p.BreakerOpen: {"breaker of provider ", func(a p.Args) string { return a.Provider + ": " + a.Cause }},
	p.HardLimited: {"hard limit, until the version changes or a reset: ", inARow},
	p.Backoff: {"backoff, until ", func(a p.Args) string {
		return fmt.Sprintf("%s: %s in a row%s", a.Until.UTC().Format(time.RFC3339), p.Plural(a.Count, "failed create"), because(a.Cause))
	}},
	p.RolloutHeld: {"rollout stopped: ", nil}, // and what is behind it
	p.MaxSurge:    {"max_surge ", func(a p.Args) string { return fmt.Sprintf("%s, on top of %d outdated", a.Share, a.Count) }},
	p.Proving: {"the first ", func(a p.Args) string {
		return fmt.Sprintf("%d of a version are to show that it works", a.Limit)
	}},
	p.UnknownProvider: {"no limits are known of provider ", func(a p.Args) string { return fmt.Sprintf("%q", a.Provider) }},
	p.RunnerMaximum: {"runner maximum ", func(a p.Args) string {
		return fmt.Sprintf("%d of the preset, %d busy", a.Limit, a.Count)
	}},
	p.ProviderMaximum:         {"maximum ", func(a p.Args) string { return fmt.Sprintf("%d of provider %s", a.Limit, a.Provider) }},
	p.NoMachine:               {"unused machines of provider ", provider},
	p.MachinesStale:           {"machines not listed lately at provider ", provider},
	p.ProviderChunk:           {"chunk of provider ", func(a p.Args) string { return a.Provider + " for this pass" }},
	p.CreateRate:              {"rate of provider ", func(a p.Args) string { return fmt.Sprintf("%s: one each %s", a.Provider, a.Every) }},
	p.CreatesInFlight:         {"creates_in_flight ", func(a p.Args) string { return fmt.Sprintf("%d of the preset", a.Limit) }},
	p.TemplateCreatesInFlight: {"creates_in_flight ", func(a p.Args) string { return fmt.Sprintf("%d of the template", a.Limit) }},

	p.CreatesFail: {"", inARow},
	p.DeadlineIsOut: {"no prebuild of this version became ready within its progress deadline of ", func(a p.Args) string {
		return a.Deadline.String()
	}},

	p.Extraneous:        {"extraneous", nil},
	p.SurplusHalves:     {"surplus: half goes each minute", nil},
	p.Outdated:          {"outdated", nil},
	p.OutdatedUnready:   {"outdated", nil},
	p.Expired:           {"expired", nil},
	p.Renewed:           {"expires soon, and its replacement is ready", nil},
	p.KeptUntilReplaced: {"outdated, until as many current ones are ready", nil},
	p.MakesRoom:         {"outdated, in the place of a current one: ", nil}, // and what is behind it

	p.MoreRun:  {"more run than the tier keeps running", nil},
	p.FewerRun: {"fewer run than the tier keeps running", nil},
	p.NoTier:   {"the preset has no standby tier", nil},
}

func inARow(a p.Args) string {
	return fmt.Sprintf("%d failed creates in a row%s", a.Count, because(a.Cause))
}

func stopped(a p.Args) string { return a.Forge + because(a.Cause) }

func provider(a p.Args) string { return a.Provider }

// quote is what a reason's arguments say, without the words of its code.
func quote(r p.Reason) string {
	switch w := wordings[r.Code]; {
	case r.Code == p.RolloutHeld || r.Code == p.MakesRoom:
		return Text(r.Behind())
	case w.rest == nil:
		return ""
	default:
		return w.rest(r.Args)
	}
}

// Text is a reason in words; a code that this release does not know stands for itself.
func Text(r p.Reason) string {
	if r.Args.Of != "" { // what would go for a reason of its own, and is kept
		switch r.Code {
		case p.Paused:
			return Text(p.Reason{Code: r.Args.Of}) + ", but paused: " + r.Args.Cause
		case p.BreakerOpen:
			return fmt.Sprintf("%s, but the breaker of provider %s is open: %s", Text(p.Reason{Code: r.Args.Of}), r.Args.Provider,
				r.Args.Cause)
		default:
		}
	}
	w, known := wordings[r.Code]
	if !known {
		return string(r.Code)
	}
	return w.words + quote(r)
}

// said is what a stored line says: by its code, and where it has none by the words that were stored.
func said(r p.Reason, text string) string {
	if r.Code == "" {
		return text
	}
	return Text(r)
}

// Stored is the ledger with its words beside its codes, as it is stored: for people who read rows, and for the release before.
func Stored(l p.Ledger) p.Ledger {
	worded := func(lines []p.Line) []p.Line {
		if lines == nil {
			return nil
		}
		out := make([]p.Line, len(lines))
		for i, line := range lines {
			line.Text = said(line.Reason, line.Text)
			out[i] = line
		}
		return out
	}
	l.Creates, l.Drains, l.Moves = worded(l.Creates), worded(l.Drains), worded(l.Moves)
	if l.Rollout != nil {
		r := *l.Rollout
		r.Text = said(r.Reason, r.Text)
		l.Rollout = &r
	}
	return l
}

// because appends the headline of a cause, where one is known.
func because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + printable.Headline(cause)
}

// lastFailed says that creates failed, one or several in a row, and why the last did.
func lastFailed(n int, cause string) string {
	if n == 1 {
		return "the last create failed" + because(cause)
	}
	return fmt.Sprintf("the last %d creates failed%s", n, because(cause))
}
