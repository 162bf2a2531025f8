package prebuilds

import "time"

// Reason is why something is so: a code and its arguments. Its words are those of coderd/explain, and of nobody else; codes are
// stored and sent by the API, so they are never renamed.
type Reason struct {
	Code Code `json:"code,omitempty"` // empty where the label says all, and in rows of a release that had words only
	Args Args `json:"args,omitzero"`
}

// Args are what a reason speaks of; each code has its own.
type Args struct {
	Limit    int           `json:"limit,omitempty"`
	Count    int           `json:"count,omitempty"` // of failures in a row, outdated ones, busy ones
	Provider string        `json:"provider,omitempty"`
	Cause    string        `json:"cause,omitempty"` // in somebody else's words: a person's, a provider's
	Until    time.Time     `json:"until,omitzero"`
	Every    time.Duration `json:"every,omitempty"` // in nanoseconds, as Deadline
	Deadline time.Duration `json:"deadline,omitempty"`
	Share    Share         `json:"share,omitempty"`
	Cron     string        `json:"cron,omitempty"`
	Timezone string        `json:"timezone,omitempty"`
	Of       Code          `json:"of,omitempty"`    // of the reason behind it: for what it would go, which limit takes its place
	Forge    string        `json:"forge,omitempty"` // the entity's name
}

// Code names a reason.
type Code string

const (
	// Why desired is what it is.
	Autosized          Code = "autosized"
	Scheduled          Code = "scheduled" // cron, timezone
	TemplateDeleted    Code = "template_deleted"
	PresetRemoved      Code = "preset_removed"
	TemplateDeprecated Code = "template_deprecated"
	ForgeDrained       Code = "forge_drained" // forge, cause
	ProviderDeleted    Code = "provider_deleted"

	// What else is counted.
	JobsWait    Code = "jobs_waiting"
	AtJobs      Code = "at_jobs"
	ExpiresSoon Code = "expires_soon"

	// What holds creates back. Paused and BreakerOpen also keep what would go, with the code of why as Of.
	Paused                  Code = "paused"           // cause
	BreakerOpen             Code = "breaker_open"     // provider, cause
	HardLimited             Code = "hard_limit"       // count, cause
	Backoff                 Code = "backoff"          // until, count, cause
	RolloutHeld             Code = "rollout_stopped"  // of, and its arguments
	MaxSurge                Code = "max_surge"        // share, count
	Proving                 Code = "proving"          // limit
	UnknownProvider         Code = "unknown_provider" // provider
	ForgeStopped            Code = "forge_stopped"    // forge, cause
	RunnerMaximum           Code = "runner_maximum"   // limit, count
	ProviderMaximum         Code = "provider_maximum" // limit, provider
	NoMachine               Code = "no_machine"       // provider
	MachinesStale           Code = "machines_stale"   // provider
	ProviderChunk           Code = "provider_chunk"   // provider
	CreateRate              Code = "create_rate"      // provider, every
	CreatesInFlight         Code = "creates_in_flight"
	TemplateCreatesInFlight Code = "template_creates_in_flight"

	// Why a rollout stopped.
	CreatesFail   Code = "creates_fail"      // count, cause
	DeadlineIsOut Code = "progress_deadline" // deadline

	// Why something goes, or stays for now.
	Extraneous        Code = "extraneous"
	SurplusHalves     Code = "surplus_halves"
	Outdated          Code = "outdated"
	OutdatedUnready   Code = "outdated_unready"
	Expired           Code = "expired"
	Renewed           Code = "renewed"
	KeptUntilReplaced Code = "kept_until_replaced"
	MakesRoom         Code = "makes_room" // of, and its arguments

	// Why something is stopped or started.
	MoreRun  Code = "more_running"
	FewerRun Code = "fewer_running"
	NoTier   Code = "no_tier"
)

// behind is the reason with another in front of it: the first's code becomes what it is of.
func (r Reason) behind(front Code) Reason {
	r.Code, r.Args.Of = front, r.Code
	return r
}

// Behind is the reason that it is of, with the arguments that they share.
func (r Reason) Behind() Reason {
	r.Code, r.Args.Of = r.Args.Of, ""
	return r
}
