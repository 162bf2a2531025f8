package prebuilds

import (
	"fmt"
	"strings"
	"time"
)

// sentence is what is said of one kind of line. A new reason of the planner gets its sentence here: a test reads the
// planner's source and fails for a reason that has none.
type sentence struct {
	label, rule string
	reason      string // in full, or its beginning followed by *
	says        string
	quotes      bool // the sentence goes on with the rest of the reason
	when        func(*explaining) (words string, at time.Time)
}

var sentences = []sentence{
	{label: "desired", says: "as many as the preset is to have", when: (*explaining).nextRange},
	{label: "desired", rule: "C4", reason: "*", says: "it is to have none:", quotes: true, when: never("until that is taken back")},
	{
		label: "desired", rule: "C9", reason: "schedule *", says: "as many as its schedule says, by the range", quotes: true,
		when: (*explaining).nextRange,
	},
	{label: "waiting", says: "claims that wait are built for on top"},
	{label: "queued", rule: "P3", reason: queuedReason, says: "jobs wait, and each gets a runner on top"},
	{label: "at jobs", rule: "P7", reason: atJobsReason, says: "of these have a job, so they are no surplus and never go before it is over"},
	{
		label: "renewal", rule: "C9", reason: "expires soon", says: "made ahead of those that expire soon, so that the pool does not shrink",
		when: (*explaining).built,
	},
	{label: "renewed", rule: "C9", reason: "expires soon", says: "of these the replacement is ready, so they no longer count"},
	{label: "actual", says: "are ready already"},
	{label: "starting", says: "are being built", when: (*explaining).startingDone},
	{label: "extraneous", says: "are more than wanted, and make nothing to create"},
	{label: "create", says: "to create now", when: (*explaining).created},

	{
		label: "held back", rule: "C10", reason: "paused: *", says: "nothing is created while this is paused:", quotes: true,
		when: (*explaining).resumed,
	},
	{
		label: "held back", rule: "S3", reason: "breaker of provider *",
		says: "nothing is created while what the provider says cannot be trusted: the breaker of", quotes: true,
		when: never("when its inventories are clean again, or with `prewarm provider resume`"),
	},
	{
		label: "held back", rule: "C8", reason: "hard limit, until the version changes or a reset: *",
		says: "creation has stopped, until the version changes or somebody runs `prewarm preset reset`:", quotes: true,
		when: never("when reset, or by a new version"),
	},
	{
		label: "held back", rule: "C8", reason: "backoff, until *", says: "waits after a failed create, until", quotes: true,
		when: (*explaining).backedOff,
	},
	{
		label: "held back", rule: "C7", reason: "rollout stopped: *",
		says: "the new version does not become ready, so the old pool stays until somebody rolls back or applies another:", quotes: true,
		when: never("with another version, a rollback or a reset"),
	},
	{
		label: "held back", rule: "C7", reason: "max_surge *", says: "as many beside the old ones as the rollout may have: max_surge",
		quotes: true, when: (*explaining).startingDone,
	},
	{
		label: "held back", rule: "C7", reason: "the first *",
		says: "a new version first shows that it works before the rest of its pool is begun: the first", quotes: true,
		when: (*explaining).startingDone,
	},
	{
		label: "held back", rule: "S4", reason: "no limits are known of provider *",
		says: "its provider is not known, so nothing can be made there:", quotes: true, when: never("when the provider is back"),
	},
	{
		label: "held back", rule: "S4", reason: "runner maximum *", says: "there may be no more runners of it at once: the maximum",
		quotes: true, when: never("when one of its runners goes, or with a higher maximum"),
	},
	{
		label: "held back", rule: "S4", reason: "maximum *", says: "the provider is full: maximum", quotes: true,
		when: never("when a workspace there goes"),
	},
	{
		label: "held back", rule: "S4", reason: "unused machines of provider *",
		says: "every machine is used, reserved or not to be reached: there are no more", quotes: true,
		when: never("when a workspace there goes, or a machine comes back"),
	},
	{
		label: "held back", rule: "S4", reason: "machines not listed lately at provider *",
		says: "nobody knows which machines are unused:", quotes: true, when: never("when they can be listed again"),
	},
	{
		label: "held back", rule: "S5", reason: "chunk of provider *", says: "one pass begins only so many creates: the chunk of", quotes: true,
		when: (*explaining).nextPass,
	},
	{
		label: "held back", rule: "S5", reason: "rate of provider *", says: "creates are begun one after the other: the rate of",
		quotes: true, when: (*explaining).rated,
	},
	{
		label: "held back", rule: "S5", reason: "creates_in_flight *", says: "as many are being built as may be at once: creates_in_flight",
		quotes: true, when: (*explaining).startingDone,
	},

	{label: "drain", rule: "C4", reason: "*", says: "go:", quotes: true, when: atOnce},
	{label: "cancel", rule: "C4", reason: "*", says: "are not built to the end:", quotes: true, when: atOnce},
	{label: "drain", rule: "C6", reason: "extraneous", says: "are more than wanted, and go: not ready first, then the oldest", when: atOnce},
	{label: "cancel", rule: "C6", reason: "extraneous", says: "are more than wanted, and are not built to the end", when: atOnce},
	{label: "drain", rule: shrinkRule, reason: shrinkReason, says: "are more than wanted, and go: half of the surplus each minute", when: atOnce},
	{
		label: "cancel", rule: shrinkRule, reason: shrinkReason,
		says: "are more than wanted, and are not built to the end: half of the surplus each minute", when: atOnce,
	},
	{
		label: "keep", rule: shrinkRule, reason: shrinkReason,
		says: "are more than wanted too, and stay for now: jobs may come for them", when: (*explaining).shrinks,
	},
	{label: "drain", rule: "C7", reason: "outdated", says: "of a version no longer active go, as current ones took their place", when: atOnce},
	{label: "drain", rule: "C9", reason: "expired", says: "are past their TTL and go", when: atOnce},
	{label: "cancel", rule: "C9", reason: "expired", says: "are past their TTL before they were built", when: atOnce},
	{label: "drain", rule: "C9", reason: renewed, says: "expire soon, and their replacement is ready", when: atOnce},
	{label: "drain", rule: "C11", reason: "outdated", says: "were being started for a version no longer active, and go", when: atOnce},
	{label: "cancel", rule: "C11", reason: "outdated", says: "were being created for a version no longer active, and are cancelled", when: atOnce},
	{
		label: "drain", rule: "S4", reason: "outdated, in the place of a current one: *",
		says: "of a version no longer active give their places to current ones, since there is no other room:", quotes: true, when: atOnce,
	},
	{
		label: "keep", rule: keepRule, reason: keepReason, says: "of a version no longer active stay until as many current ones are ready",
		when: (*explaining).built,
	},
	{label: "keep", rule: "C10", reason: "*", says: "would go, but nothing goes while this is paused:", quotes: true, when: (*explaining).resumed},

	{label: "stop", rule: moveRule, reason: stopReason, says: "more run than the standby tier keeps running, and are stopped: the youngest", when: atOnce},
	{
		label: "start", rule: moveRule, reason: startReason,
		says: "fewer run than the standby tier keeps running, and are started: the oldest of the stopped", when: atOnce,
	},
	{label: "start", rule: moveRule, reason: allReason, says: "are stopped, though the preset has no standby tier, and are started", when: atOnce},

	{
		label: "keep", rule: "S3", reason: "*", says: "would go, but nothing goes while the breaker is open:", quotes: true,
		when: never("when its inventories are clean again, or with `prewarm provider resume`"),
	},

	{
		label: "rollout", rule: "C7", reason: "*", says: "the rollout has stopped, and the old prebuilds stay:", quotes: true,
		when: never("with another version, a rollback or a reset"),
	},
}

func sentenceOf(line Line) (sentence, bool) {
	for _, s := range sentences {
		if s.label == line.Label && s.rule == line.Rule && s.matches(line.Reason) {
			return s, true
		}
	}
	return sentence{}, false
}

func (s sentence) matches(reason string) bool {
	if prefix, some := strings.CutSuffix(s.reason, "*"); some {
		return strings.HasPrefix(reason, prefix)
	}
	return reason == s.reason
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
		if s := x.ws[i].State; (s == Provisioning || s == Starting) && !x.ws[i].HasIntent {
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
	return "when the backoff ends", x.preset.backoffEnd()
}
