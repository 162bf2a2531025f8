package explain

import (
	"fmt"
	"time"

	p "github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// key is a kind of line: its label, and the code of its reason.
type key struct {
	label string
	code  p.Code
}

// sentence is what is said of one kind of line. A new reason of the planner gets its sentence here: a test draws plans by the
// thousand, and fails for a line that has none and for a sentence that nobody says.
type sentence struct {
	says   string
	quotes quotes
	when   func(*explaining) (words string, at time.Time)
}

// quotes is what of the reason's own words a sentence goes on with.
type quotes int

const (
	nothing quotes = iota
	arguments
	everything
)

const (
	drain, cancel = string(p.Drain), string(p.Cancel)
	stop, start   = string(p.Stop), string(p.Start)
	clean         = "when its inventories are clean again, or with `prewarm provider resume`"
	started       = "when somebody runs `prewarm forge start`"
	another       = "with another version, a rollback or a reset"
)

var sentences = map[key]sentence{
	{p.LabelDesired, ""}:                   {"desired", nothing, (*explaining).nextRange},
	{p.LabelDesired, p.Autosized}:          {"as many as autosize computed from the preset's claims", nothing, nil},
	{p.LabelDesired, p.Scheduled}:          {"as many as its schedule says, by the range", arguments, (*explaining).nextRange},
	{p.LabelDesired, p.TemplateDeleted}:    {"it is to have none:", everything, never("until that is taken back")},
	{p.LabelDesired, p.PresetRemoved}:      {"it is to have none:", everything, never("until that is taken back")},
	{p.LabelDesired, p.TemplateDeprecated}: {"it is to have none:", everything, never("until that is taken back")},
	{p.LabelDesired, p.ForgeDrained}:       {"it is to have none:", everything, never(started)},
	{p.LabelDesired, p.ProviderDeleted}:    {"it is to have none:", everything, never("when the template has another provider, or this one is applied again")},
	{p.LabelWaiting, ""}:                   {"claims that wait are built for on top", nothing, nil},
	{p.LabelQueued, p.JobsWait}:            {"jobs wait, and each gets a runner on top", nothing, nil},
	{p.LabelAtJobs, p.AtJobs}:              {"of these have a job, so they are no surplus and never go before it is over", nothing, nil},
	{p.LabelRenewal, p.ExpiresSoon}:        {"made ahead of those that expire soon, so that the pool does not shrink", nothing, (*explaining).built},
	{p.LabelRenewed, p.ExpiresSoon}:        {"of these the replacement is ready, so they no longer count", nothing, nil},
	{p.LabelActual, ""}:                    {"ready", nothing, nil},
	{p.LabelStarting, ""}:                  {"are being built", nothing, (*explaining).startingDone},
	{p.LabelExtraneous, ""}:                {"are more than wanted, and make nothing to create", nothing, nil},
	{p.LabelCreate, ""}:                    {"to create now", nothing, (*explaining).created},

	{p.LabelHeldBack, p.ForgeStopped}: {
		"no runner is made while its forge is stopped, for a job or to be idle:", arguments, never(started),
	},
	{p.LabelHeldBack, p.Paused}: {"nothing is created while this is paused:", arguments, (*explaining).resumed},
	{p.LabelHeldBack, p.BreakerOpen}: {
		"nothing is created while what the provider says cannot be trusted: the breaker of", arguments, never(clean),
	},
	{p.LabelHeldBack, p.HardLimited}: {
		"creation has stopped, until the version changes or somebody runs `prewarm preset reset`:", arguments,
		never("when reset, or by a new version"),
	},
	{p.LabelHeldBack, p.Backoff}: {"waits after a failed create, until", arguments, (*explaining).backedOff},
	{p.LabelHeldBack, p.RolloutHeld}: {
		"the new version does not become ready, so the old pool stays until somebody rolls back or applies another:", arguments,
		never(another),
	},
	{p.LabelHeldBack, p.MaxSurge}: {"as many on top of the old ones as the rollout may have: max_surge", arguments, (*explaining).startingDone},
	{p.LabelHeldBack, p.Proving}: {
		"a new version first shows that it works before the rest of its pool is begun: the first", arguments,
		(*explaining).startingDone,
	},
	{p.LabelHeldBack, p.UnknownProvider}: {
		"its provider is not known, so nothing can be made there:", arguments, never("when the provider is back"),
	},
	{p.LabelHeldBack, p.RunnerMaximum}: {
		"no more runners may exist at once: the maximum", arguments,
		never("when one of its runners goes, or with a higher maximum"),
	},
	{p.LabelHeldBack, p.ProviderMaximum}: {"the provider is full: maximum", arguments, never("when a workspace there goes")},
	{p.LabelHeldBack, p.NoMachine}: {
		"every machine is used, reserved or not to be reached: there are no more", arguments,
		never("when a workspace there goes, or a machine comes back"),
	},
	{p.LabelHeldBack, p.MachinesStale}: {
		"nobody knows which machines are unused:", arguments, never("when they can be listed again"),
	},
	{p.LabelHeldBack, p.ProviderChunk}: {"one pass begins only so many creates: the chunk of", arguments, (*explaining).nextPass},
	{p.LabelHeldBack, p.CreateRate}:    {"creates are begun one after the other: the rate of", arguments, (*explaining).rated},
	{p.LabelHeldBack, p.CreatesInFlight}: {
		"as many are being built as may be at once: creates_in_flight", arguments, (*explaining).startingDone,
	},
	{p.LabelHeldBack, p.TemplateCreatesInFlight}: {
		"as many are being built as may be at once: creates_in_flight", arguments, (*explaining).startingDone,
	},

	{drain, p.TemplateDeleted}:     {"go:", everything, atOnce},
	{drain, p.PresetRemoved}:       {"go:", everything, atOnce},
	{drain, p.TemplateDeprecated}:  {"go:", everything, atOnce},
	{cancel, p.TemplateDeleted}:    {"are not built to the end:", everything, atOnce},
	{cancel, p.PresetRemoved}:      {"are not built to the end:", everything, atOnce},
	{cancel, p.TemplateDeprecated}: {"are not built to the end:", everything, atOnce},
	{drain, p.ForgeDrained}:        {"have no job, and go:", everything, atOnce},
	{cancel, p.ForgeDrained}:       {"are not built to the end:", everything, atOnce},
	{drain, p.ProviderDeleted}:     {"go:", everything, atOnce},
	{cancel, p.ProviderDeleted}:    {"are not built to the end:", everything, atOnce},
	{drain, p.Extraneous}:          {"are more than wanted, and go: not ready first, then the oldest", nothing, atOnce},
	{cancel, p.Extraneous}:         {"are more than wanted, and are not built to the end", nothing, atOnce},
	{drain, p.SurplusHalves}:       {"are more than wanted, and go: half of the surplus each minute", nothing, atOnce},
	{cancel, p.SurplusHalves}:      {"are more than wanted, and are not built to the end: half of the surplus each minute", nothing, atOnce},
	{p.LabelKeep, p.SurplusHalves}: {"are more than wanted too, and stay for now: jobs may come for them", nothing, (*explaining).shrinks},
	{drain, p.Outdated}:            {"of a version no longer active go, as current ones took their place", nothing, atOnce},
	{drain, p.Expired}:             {"are past their TTL and go", nothing, atOnce},
	{cancel, p.Expired}:            {"are past their TTL before they were built", nothing, atOnce},
	{drain, p.Renewed}:             {"expire soon, and their replacement is ready", nothing, atOnce},
	{drain, p.OutdatedUnready}:     {"were being started for a version no longer active, and go", nothing, atOnce},
	{cancel, p.OutdatedUnready}:    {"were being created for a version no longer active, and are cancelled", nothing, atOnce},
	{drain, p.MakesRoom}: {
		"of a version no longer active give their places to current ones, since there is no other room:", arguments, atOnce,
	},
	{p.LabelKeep, p.KeptUntilReplaced}: {
		"of a version no longer active stay until as many current ones are ready", nothing, (*explaining).built,
	},
	{p.LabelKeep, p.Paused}:      {"would go, but nothing goes while this is paused:", everything, (*explaining).resumed},
	{p.LabelKeep, p.BreakerOpen}: {"would go, but nothing goes while the breaker is open:", everything, never(clean)},

	{stop, p.MoreRun}:   {"more run than the standby tier keeps running, and are stopped: the youngest", nothing, atOnce},
	{start, p.FewerRun}: {"fewer run than the standby tier keeps running, and are started: the oldest of the stopped", nothing, atOnce},
	{start, p.NoTier}:   {"are stopped, though the preset has no standby tier, and are started", nothing, atOnce},

	{p.LabelRollout, p.CreatesFail}:   {"the rollout has stopped, and the old prebuilds stay:", everything, never(another)},
	{p.LabelRollout, p.DeadlineIsOut}: {"the rollout has stopped, and the old prebuilds stay:", everything, never(another)},
}

// Sentences are the kinds of lines that there is a sentence for: codes by label.
func Sentences() map[string][]p.Code {
	known := map[string][]p.Code{}
	for k := range sentences {
		known[k.label] = append(known[k.label], k.code)
	}
	return known
}

func never(words string) func(*explaining) (string, time.Time) {
	return func(*explaining) (string, time.Time) { return words, time.Time{} }
}

func atOnce(x *explaining) (string, time.Time) { return "at once", x.now }

func (x *explaining) nextPass() (string, time.Time) { return "with the next pass", x.now }

// rated is when the rate lets another create begin.
func (x *explaining) rated() (string, time.Time) {
	if x.plan.RetryAt.After(x.now) {
		return "the next one", x.plan.RetryAt
	}
	return x.nextPass()
}

// nextRange is when the schedule gives another number.
func (x *explaining) nextRange() (string, time.Time) {
	if x.preset.Schedule == nil || x.preset.Retired != "" {
		return "", time.Time{}
	}
	const ahead = 7 * 24 * time.Hour
	windows := x.preset.Schedule.Windows(x.preset.Desired, x.now, x.now.Add(ahead))
	if len(windows) < 2 {
		return "no change within 7 days", time.Time{}
	}
	return fmt.Sprintf("%d from then on", windows[1].Instances), windows[1].From
}

// built is when what is begun now is ready.
func (x *explaining) built() (string, time.Time) {
	if x.provision == 0 {
		return "not known: none was built yet", time.Time{}
	}
	return "", x.now.Add(x.provision)
}

func (x *explaining) created() (string, time.Time) {
	if x.plan.Create == 0 {
		return "", time.Time{}
	}
	return x.built()
}

// startingDone is when the youngest of those being built is ready, by the usual time.
func (x *explaining) startingDone() (string, time.Time) {
	if x.provision == 0 {
		return "not known: none was built yet", time.Time{}
	}
	var youngest time.Time
	for i := range x.ws {
		if s := x.ws[i].State; (s == p.Provisioning || s == p.Starting) && !x.ws[i].HasIntent {
			youngest = later(youngest, x.ws[i].CreatedAt)
		}
	}
	if youngest.IsZero() { // those that are to be created first
		return x.built()
	}
	at := youngest.Add(x.provision)
	if at.Before(x.now) {
		return fmt.Sprintf("any moment: it takes longer than the usual %s", x.provision.Round(time.Second)), x.now
	}
	return "", at
}

func (x *explaining) resumed() (string, time.Time) {
	if x.preset.PauseUntil.IsZero() {
		return "when resumed", time.Time{}
	}
	return "when the pause ends", x.preset.PauseUntil
}

func (x *explaining) backedOff() (string, time.Time) {
	return "when the backoff ends", x.preset.BackoffEnd()
}

// shrinks is when the next half of the surplus goes.
func (x *explaining) shrinks() (string, time.Time) { return "the next half", x.plan.NextShrink(x.now) }
