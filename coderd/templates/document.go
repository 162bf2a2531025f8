package templates

import (
	"encoding/json"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
)

// Limits of what a file may ask for. Each is far above what works well and far below what hurts others.
const (
	// MaxInstances of one preset. A pass writes what it creates in one transaction, and ten thousand workspaces of one
	// preset are more than any provider builds in an hour; a bigger number is a slip of the finger.
	MaxInstances = 10_000
	maxPriority  = 1_000
	maxLimit     = 1_000_000 // of a provider's maximum, chunk and creates in flight
	maxTTL       = 365 * 24 * time.Hour
	maxBoot      = 24 * time.Hour
	maxHeartbeat = 24 * time.Hour
	maxTTLJitter = 50  // per cent
	maxKept      = 100 // failed prebuilds of a preset
	maxKeptTTL   = 30 * 24 * time.Hour
	maxUses      = 1_000_000 // of a workspace
	maxIdleCost  = 1_000_000

	maxSource     = 1 << 20 // bytes of a file
	maxDepth      = 32      // of lists and mappings within one another
	maxText       = 4_096   // bytes of a description
	maxParameters = 100     // of a preset
)

// Defaults of settings left out.
const (
	defaultBoot = 20 * time.Minute
	// defaultTTLJitter spreads the expiries of a pool that was built at once over a tenth of the TTL.
	defaultTTLJitter = 10
	// defaultHeartbeat is six heartbeats at their usual pace.
	defaultHeartbeat = time.Minute
	// defaultKept failures of a preset show whether they are alike, and leave room for what works.
	defaultKept    = 2
	defaultKeptTTL = 24 * time.Hour
	// defaultUses bounds what a workspace gathers that no reset finds.
	defaultUses = 10
)

// Document is a configuration file.
type Document struct {
	File      string
	Providers []Provider
	Templates []Template
}

// Provider is where workspaces live, with its limits (S4, S5).
type Provider struct {
	Name            string
	Kind            string
	Config          json.RawMessage // canonical
	Maximum         int32           // 0: no limit
	CreatesInFlight int32
	Chunk           int32
	CreateEvery     time.Duration // 0: no limit
	CreateBurst     int32
	InventoryEvery  time.Duration
	Breaker         Breaker
	DataPlane       Allowed
	Reserves        bool // its machines exist beforehand; known when it was made

	said                 struct{ maximum, chunk, every bool } // by the file
	at, kindAt, configAt Pos
}

// Allowed is what templates of a provider may open to others than the user of a claim.
type Allowed struct {
	Enter       bool `json:"enter" file:"enter"`
	PublicPorts bool `json:"public_ports" file:"public_ports"`
}

// Breaker is when a provider's breaker opens and closes (S3).
type Breaker struct {
	Count   int32 `json:"count" file:"count"`     // of new discrepancies, at which it opens
	Percent int32 `json:"percent" file:"percent"` // of all that there is, which they must be as well
	Errors  int32 `json:"errors" file:"errors"`   // per cent of calls that fail, at which it opens
	Clean   int32 `json:"clean" file:"clean"`     // inventories in a row after which it closes
}

// Template is a named kind of workspace on one provider.
type Template struct {
	Name         string
	Description  string
	Provider     string
	KeepOutdated bool
	Rollout      Rollout
	BootTimeout  time.Duration   // whole seconds
	IdleCost     float64         // of a prebuild in an hour; 0: not said
	StoppedCost  *float64        // of one in standby; nil: as much
	Spec         json.RawMessage // canonical; nil where it could not be read
	Agent        *Agent          // nil: none, and the provider is asked for readiness
	KeepFailures KeepFailures
	Reuse        Reuse
	Claims       Claiming
	Presets      []Preset

	CreatesInFlight *int32 // nil: no limit of its own

	at, agentAt, reuseAt, maxUsesAt, providerAt, specAt Pos
	spec                                                positions
}

// KeepFailures is how many failed prebuilds of each preset are kept for inspection, and for how long. None with maximum 0.
type KeepFailures struct {
	Maximum int32
	TTL     time.Duration // whole seconds
}

// Reuse says whether a released workspace is made like new, and how many claims one may serve.
type Reuse struct {
	On      bool
	MaxUses int32 // 1 where it is not on
}

// Agent is what runs inside each workspace of a template and reports for it. Beside the spec and not in it, since it means
// the same at every provider.
type Agent struct {
	OnStart          []string      // program and arguments; ready when it has succeeded
	OnClaim          []string      // program and arguments, run once for each claim
	Runner           []string      // program and arguments, run after OnStart in the workspaces of runner presets
	HeartbeatTimeout time.Duration // whole seconds; not heard of for longer, the agent is silent
	NoDataPlane      bool          // nobody can run commands in its workspaces through it
	Enter            []string      // roles that may enter claimed workspaces of others
	PublicPorts      []int32       // that anybody may reach; sorted

	enterAt, publicPortsAt Pos
}

// Preset is a named set of parameters; with Prebuilds it is a pool.
type Preset struct {
	Name       string
	Parameters map[string]string
	Prebuilds  *Prebuilds
	Runner     *Runner // nil: people claim it

	at         Pos
	parameters positions
}

// Prebuilds is the pool of a preset.
type Prebuilds struct {
	Instances    int32
	AllMachines  bool            // `instances: all`; Instances is 0 then
	Schedule     json.RawMessage // prebuilds.StoredSchedule; nil: none
	TTL          time.Duration   // whole seconds; 0: no end
	TTLJitter    int32           // per cent
	MinRemaining time.Duration   // whole seconds; what a claim must find left of the TTL
	Priority     int32
	Autosize     *sizing.Config // nil: off
	Standby      Standby

	CreatesInFlight *int32 // nil: no limit of its own

	instancesAt Pos
}
