package prebuilds

import (
	"time"

	"github.com/google/uuid"
)

// State is a workspace's state, as in DESIGN section 4. The planner sees the unclaimed ones.
type State string

const (
	Provisioning State = "provisioning"
	Starting     State = "starting"
	Ready        State = "ready"
	Standby      State = "standby"
	Claimed      State = "claimed"
	Draining     State = "draining"
	Deleting     State = "deleting"
	Deleted      State = "deleted"
	Quarantined  State = "quarantined"
)

// Snapshot is everything a pass decides on, read at one instant. Now is the only time the planner knows.
type Snapshot struct {
	Now     time.Time
	Presets []Preset
	// Workspaces are the unclaimed ones of these presets, in any order.
	Workspaces []Workspace
	Providers  map[string]Limits
	Pauses     Pauses
}

// PauseScope is what a pause covers (C10).
type PauseScope string

const (
	PauseGlobal   PauseScope = "global"
	PausePreset   PauseScope = "preset"
	PauseTemplate PauseScope = "template"
	PauseProvider PauseScope = "provider"
)

// PauseKey is one thing that may be paused: a preset's or template's id, a provider's name; empty for all there is.
type PauseKey struct {
	Scope  PauseScope
	Target string
}

// Pause is why something is paused, and when that ends by itself; zero: when somebody resumes.
type Pause struct {
	Reason string
	Until  time.Time
}

// Pauses are those in effect.
type Pauses map[PauseKey]Pause

// of is the pause that holds for a preset: the first that there is of the global one, its own, its template's and its
// provider's. The view preset_pauses says the same for readers.
func (ps Pauses) of(p *Preset) (Pause, bool) {
	for _, key := range []PauseKey{
		{PauseGlobal, ""}, {PausePreset, p.ID.String()}, {PauseTemplate, p.TemplateID.String()}, {PauseProvider, p.Provider},
	} {
		if pause, ok := ps[key]; ok {
			return pause, true
		}
	}
	return Pause{}, false
}

// Preset is one preset with what bears on its pool. A preset without a prebuilds block, of a deprecated or deleted
// template, or deleted itself has Desired 0.
type Preset struct {
	ID           uuid.UUID
	Template     string // for reasons and order only
	Name         string
	Provider     string
	PoolKey      uuid.UUID // what a prebuild must carry to be of the active version
	Desired      int       // its own instances, where no schedule says otherwise; see the func of that name
	Schedule     *Schedule // C9; nil: none
	Autosized    bool      // Desired is what autosize computed
	Priority     int       // higher first when a limit binds
	KeepOutdated bool      // C7: prebuilds of older versions stay claimable
	Retired      Code      // empty, or why it scales to zero; of runners also ForgeDrained
	Pause        string    // empty, or why it is paused (C10); DecidePreset sets it by the snapshot's pauses
	PauseUntil   time.Time // when that pause ends by itself; zero: when somebody resumes
	Breaker      string    // empty, or why the breaker of its provider is open (S3)
	Waiting      int       // claims waiting for a workspace
	// Cold are those of the waiting claims that want a workspace planned after they came: when that was, latest first.
	Cold []time.Time
	// RenewAhead is how long before its expiry a prebuild's replacement is begun (C9); 0: not before it.
	RenewAhead time.Duration
	// Failures in a row of creates for this PoolKey (C8).
	FailureStreak int
	LastFailureAt time.Time
	LastFailure   string
	// FailuresMayPass: so far they are of a kind that a retry may mend, and have not gone on for long (C8).
	FailuresMayPass bool
	CreatesInFlight int // most that are being built at once; 0: no limit of its own

	// C7: how a version replaces another. Unproven: no prebuild of this PoolKey was ever ready.
	MaxSurge         Share // left out: as many as desired
	MaxUnavailable   Share // left out: none, but one where a maximum leaves no room beside the old
	ProgressDeadline time.Duration
	RolloutAt        time.Time // since when PoolKey is what it is
	Unproven         bool

	// Running is how many of Desired are kept running, the others being stopped (C17). Left out: all.
	Running Share

	// Runner is there for a preset whose prebuilds are runners of a forge (P3).
	Runner *Runner

	// The template, and how many of all its presets may be being built at once; 0: no limit of its own.
	TemplateID              uuid.UUID
	TemplateCreatesInFlight int

	// AllMachines: Desired is as many as there are machines for (S4); DecidePreset counts them.
	AllMachines bool
	// Fault is why its row cannot be read: then nothing is decided about it.
	Fault error
}

// Workspace is an unclaimed workspace.
type Workspace struct {
	ID          uuid.UUID
	PresetID    uuid.UUID
	PoolKey     uuid.UUID
	Provider    string
	State       State
	Incarnation int32
	CreatedAt   time.Time
	ExpiresAt   time.Time // from when on no claim takes it (its TTL less what a claim must have left of it); zero: never
	HasIntent   bool      // a pass already decided to drain or cancel it
	Leased      bool      // its create job was leased at least once
	WasReady    bool      // it was ready before, in this incarnation
	Moving      bool      // a pass already decided to stop or start it
	Busy        bool      // a runner that its forge says is at a job, though no claim says so yet (P7)
	GivenUp     bool      // its provider was deleted by force: nobody should be given it
	Gone        bool      // its provider is known to have nothing of it: it takes no place there (S4)
}

// Limits are one provider's (S4, S5). Zero Maximum is no limit. Live counts every workspace that is or may be there, the
// claimed included: those that are neither deleted nor known to be gone. It is only read where Maximum is set.
type Limits struct {
	Maximum int
	Live    int
	Chunk   int // creates left for this pass
	// Reserves: its machines exist beforehand, and Available of them are unused and nobody's (S4). Stale: they were not listed
	// lately, so that none is available.
	Reserves, Stale bool
	Available       int
	// Rate is what the rate of creates leaves; nil: there is no such limit.
	Rate *Allowance
}
