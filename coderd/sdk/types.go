// Package sdk holds the wire types of the API and a client for it. The CLI, the agent and the generated TypeScript
// types are made of it, so that there is one vocabulary on the wire: that of DESIGN section 1.
package sdk

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Counts are those of rule C3 for one preset. Every unclaimed workspace of the preset is in exactly one of Actual,
// Starting, Stopping, Deleting, Outdated, Expired and Quarantined. Eligible and Extraneous are taken out of these:
// Eligible is what a claim could take now, Extraneous the surplus of Actual + Starting over Desired, Standby those of Actual
// that are stopped.
type Counts struct {
	Desired     int `json:"desired" doc:"How many prebuilds the preset should have ready"`
	Actual      int `json:"actual" doc:"Ready prebuilds of the active version, not expired, with no intent to drain"`
	Standby     int `json:"standby" doc:"Of the actual, those that are stopped and started when claimed"`
	Eligible    int `json:"eligible" doc:"Prebuilds that can be claimed now"`
	Starting    int `json:"starting" doc:"Provisioning and starting, of the active version"`
	Stopping    int `json:"stopping" doc:"Draining, or with an intent to drain"`
	Deleting    int `json:"deleting" doc:"Being deleted at the provider"`
	Outdated    int `json:"outdated" doc:"Of a version that is no longer active"`
	Extraneous  int `json:"extraneous" doc:"Surplus of actual and starting over desired, waiting claims and jobs"`
	Expired     int `json:"expired" doc:"Past its TTL"`
	Quarantined int `json:"quarantined" doc:"Kept for inspection"`
	Waiting     int `json:"waiting" doc:"Claims waiting for a workspace"`
	Claimed     int `json:"claimed" doc:"Claimed workspaces; of runners, those that are busy"`
	Queued      int `json:"queued,omitempty" doc:"Of runners: jobs of the forge that wait for one"`
}

// Preset is a named set of parameters of a template; with a prebuilds block it is a pool.
type Preset struct {
	ID           uuid.UUID         `json:"id"`
	Organization string            `json:"organization"`
	Template     string            `json:"template"`
	Preset       string            `json:"preset"`
	Version      int               `json:"version" doc:"Number of the active template version"`
	Provider     string            `json:"provider"`
	Parameters   map[string]string `json:"parameters"`
	Pool         bool              `json:"pool" doc:"Whether it has a prebuilds block"`
	TTL          string            `json:"ttl,omitempty" doc:"Lifetime of an unclaimed prebuild, such as 8h0m0s"`
	MinRemaining string            `json:"min_remaining,omitempty" doc:"What a claim must find left of the TTL"`
	Scheduled    bool              `json:"scheduled" doc:"Whether a schedule changes desired over time"`
	Priority     int               `json:"priority"`
	Counts
	Runner  *RunnerSettings `json:"runner,omitempty" doc:"Where its prebuilds are runners of a forge, which jobs claim"`
	Rollout *Rollout        `json:"rollout,omitempty" doc:"While a version replaces another"`
	Reasons []string        `json:"reasons" doc:"Why actual is not desired, as the last pass saw it"`
	Why     []Reason        `json:"why" doc:"The reasons with their codes"`
	Paused  string          `json:"paused,omitempty" doc:"The scope and the reason of the pause that holds for it" example:"global: moving"`

	PausedScope string     `json:"paused_scope,omitempty" enum:"global,provider,template,preset" doc:"What that pause covers"`
	PausedUntil *time.Time `json:"paused_until,omitempty" doc:"When that pause ends by itself"`

	Unattainable string `json:"unattainable,omitempty" doc:"Why autosize does not reach its target"`

	Failures int    `json:"failures,omitempty" doc:"Rounds of failed creates in a row"`
	Fault    string `json:"fault,omitempty" doc:"Of the last failed create: its last line that says something, then what failed"`

	Error    string     `json:"error,omitempty" doc:"What the last pass could not do for this preset"`
	PassedAt *time.Time `json:"passed_at,omitempty" doc:"When the decision last changed"`
}

// Drift is what the last look at a workspace found at the place itself.
type Drift struct {
	LookedAt  *time.Time `json:"looked_at,omitempty" doc:"When the last look ended that found out"`
	Resources []string   `json:"resources" doc:"Those that were changed or removed, of many only the first" example:"docker_container.workspace"`
	Error     string     `json:"error,omitempty" doc:"Why the last look found nothing out"`
}

// Workspace is one instance at a provider, whoever owns it.
type Workspace struct {
	ID           uuid.UUID         `json:"id"`
	Name         string            `json:"name"`
	Organization string            `json:"organization"`
	Template     string            `json:"template"`
	Preset       string            `json:"preset"`
	Version      int               `json:"version"`
	Provider     string            `json:"provider"`
	State        string            `json:"state" enum:"provisioning,starting,ready,standby,claimed,draining,deleting,deleted,quarantined"`
	Incarnation  int               `json:"incarnation"`
	Owner        string            `json:"owner"`
	ClaimID      *uuid.UUID        `json:"claim_id,omitempty"`
	ProviderID   string            `json:"provider_id,omitempty"`
	Site         string            `json:"site,omitempty"`
	OSName       string            `json:"os_name,omitempty" doc:"Of its system, as the provider says" example:"ubuntu"`
	OSVersion    string            `json:"os_version,omitempty" doc:"Of its system, as the provider says" example:"24.04"`
	Addresses    []Address         `json:"addresses"`
	Environment  map[string]string `json:"environment"`
	Open
	Parameters map[string]string `json:"parameters"`
	Resources  []string          `json:"resources,omitempty" doc:"What it is made of, where its provider says so: of many only the first. Only when one workspace is asked for, by who may enter it" example:"docker_container.workspace"`
	Drift      *Drift            `json:"drift,omitempty" doc:"What looks at it found that differs from what made it, where its provider looks. Only when one workspace is asked for, by who may enter it"`
	Fault      string            `json:"fault,omitempty"`
	Starting   bool              `json:"starting,omitempty" doc:"Claimed out of standby, and cannot be used yet"`
	CreatedAt  time.Time         `json:"created_at"`
	StateAt    time.Time         `json:"state_at"`
	ReadyAt    *time.Time        `json:"ready_at,omitempty"`
	ClaimedAt  *time.Time        `json:"claimed_at,omitempty"`
	LeaseUntil *time.Time        `json:"lease_until,omitempty" doc:"When its claim ends by itself unless the lease is renewed"`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty"`
	DeletedAt  *time.Time        `json:"deleted_at,omitempty"`
	Handover   string            `json:"handover,omitempty" enum:"pending,running,done,failed,cancelled" doc:"How the apply for the owner of a claimed workspace stands, where its template asks for one; only when one workspace is asked for"`
	Receipt    *Receipt          `json:"receipt,omitempty" doc:"Of its claim; only when one workspace is asked for"`
	History    []Transition      `json:"history,omitempty" doc:"Only when one workspace is asked for"`
	Job        *Job              `json:"job,omitempty" doc:"The work under way on it, if any"`
	Evidence   string            `json:"evidence,omitempty" doc:"The end of its output when it failed, where the template keeps failures; only when one workspace is asked for, by who may enter it"`
	Agent      *Agent            `json:"agent,omitempty" doc:"What runs inside it, if anything; only when one workspace is asked for"`
}

// Address is where a workspace is reached.
type Address struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// Transition is one row of a workspace's history.
type Transition struct {
	From   string    `json:"from,omitempty"`
	To     string    `json:"to"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`

	LastedMS    *int64 `json:"lasted_ms,omitempty" doc:"How long it was in the state that this led to; not of the last one"`
	Incarnation int    `json:"incarnation"`
	Job         string `json:"job,omitempty" doc:"The kind of the job that led to it, or that was to follow"`
	Attempt     int    `json:"attempt,omitempty" doc:"Which attempt of that job it was"`
	Failures    int    `json:"failures,omitempty" doc:"How often that job had failed"`
	Error       string `json:"error,omitempty" doc:"The last error of that job, where the reason does not tell"`
}

// Job is provider work under way.
type Job struct {
	ID        uuid.UUID `json:"id"`
	Kind      string    `json:"kind" enum:"create,probe,drain,delete,reset,stop,start,handover"`
	State     string    `json:"state" enum:"pending,running,done,failed,cancelled"`
	Attempt   int       `json:"attempt"`
	Failures  int       `json:"failures"`
	DueAt     time.Time `json:"due_at"`
	LeasedBy  string    `json:"leased_by,omitempty"`
	LastError string    `json:"last_error,omitempty"`
}

// Template is a named kind of workspace on one provider.
type Template struct {
	ID            uuid.UUID `json:"id"`
	Organization  string    `json:"organization"`
	Name          string    `json:"name"`
	Description   string    `json:"description"`
	Provider      string    `json:"provider"`
	ActiveVersion int       `json:"active_version"`
	KeepOutdated  bool      `json:"keep_outdated"`
	BootTimeout   string    `json:"boot_timeout"`
	MaxSurge      string    `json:"max_surge" doc:"How many more than desired there may be during a rollout: a number or per cent"`

	MaxUnavailable   string `json:"max_unavailable,omitempty" doc:"How many fewer than desired may be ready; none where empty, but one where a maximum leaves no room"`
	ProgressDeadline string `json:"progress_deadline" doc:"By when the first prebuild of a version must be ready"`
	CreatesInFlight  int    `json:"creates_in_flight,omitempty" doc:"Most that are being built at once; none where 0"`

	KeepFailures int        `json:"keep_failures" doc:"How many failed prebuilds of each preset are kept for inspection"`
	KeepTTL      string     `json:"keep_failures_ttl,omitempty" doc:"How long they are kept, such as 24h0m0s"`
	MaxUses      int        `json:"max_uses" doc:"How many claims a workspace may serve; 1: it is deleted when released"`
	Presets      []string   `json:"presets"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
	DeprecatedAt *time.Time `json:"deprecated_at,omitempty"`
	Versions     []Version  `json:"versions,omitempty" doc:"Only when one template is asked for"`
}

// Version is an immutable spec, identified by the hash of its content.
type Version struct {
	ID        uuid.UUID       `json:"id"`
	Number    int             `json:"number"`
	Hash      string          `json:"hash"`
	Active    bool            `json:"active"`
	Provider  string          `json:"provider"`
	Spec      json.RawMessage `json:"spec"`
	Agent     *AgentConfig    `json:"agent,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	CreatedBy string          `json:"created_by"`
}

// ApplyRequest carries a configuration file as it was written, so that errors name its lines.
type ApplyRequest struct {
	Document string `json:"document,omitempty" doc:"YAML; that of the plan where it is left out"`
	File     string `json:"file,omitempty" doc:"Its name, for error messages"`
	DryRun   bool   `json:"dry_run,omitempty"`
	Plan     string `json:"plan,omitempty" doc:"Id of a plan: nothing is applied if what it depends on has moved"`
}

// ApplyResult says what an apply changed, or with DryRun would change.
type ApplyResult struct {
	DryRun  bool     `json:"dry_run"`
	Changes []Change `json:"changes"`
}

// Change is one object made different by an apply.
type Change struct {
	Kind   string   `json:"kind" enum:"provider,template,version,preset"`
	Name   string   `json:"name" example:"quickstart/default"`
	Action string   `json:"action" enum:"create,update,activate,delete"`
	Fields []string `json:"fields,omitempty" example:"instances: 3 -> 5"`
	Effect string   `json:"effect,omitempty" doc:"What it means for the pool, for a reader"`
}

// Replica is one running server process.
type Replica struct {
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	Address     string    `json:"address"`
	Sites       []string  `json:"sites"`
	StartedAt   time.Time `json:"started_at"`
	HeartbeatAt time.Time `json:"heartbeat_at"`
	State       string    `json:"state" enum:"alive,stopping,stale"`
	LastPass    bool      `json:"last_pass" doc:"Whether it did the last pass"`

	Work map[string]int `json:"work" doc:"How many jobs of each kind it is at"`
}

// LastPass is how the passes stand: whichever replica does them, there is one at a time for all.
type LastPass struct {
	Replica     string     `json:"replica,omitempty" doc:"That did the last one"`
	Sequence    int64      `json:"sequence" doc:"Its number"`
	BeganAt     *time.Time `json:"began_at,omitempty"`
	FullBeganAt *time.Time `json:"full_began_at,omitempty" doc:"Of the last one over all templates"`
	StalenessMS int64      `json:"staleness_ms" doc:"Since the last one over all templates; 0 before the first"`
	LimitMS     int64      `json:"limit_ms" doc:"From which staleness on pools count as not looked after"`
	Stale       bool       `json:"stale" doc:"Pools are not refilled: no pass over all templates succeeded for longer than the limit, or ever"`
}

// AuditEntry is who did what, on what, before and after, from where.
type AuditEntry struct {
	ID           int64           `json:"id"`
	At           time.Time       `json:"at"`
	Actor        string          `json:"actor"`
	Organization string          `json:"organization,omitempty"`
	Action       string          `json:"action"`
	TargetType   string          `json:"target_type"`
	TargetID     string          `json:"target_id"`
	TargetName   string          `json:"target_name,omitempty"`
	Before       json.RawMessage `json:"before,omitempty"`
	After        json.RawMessage `json:"after,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Source       string          `json:"source,omitempty"`
}

// Identity is who a token speaks for.
type Identity struct {
	UserID       uuid.UUID  `json:"user_id"`
	User         string     `json:"user"`
	Organization string     `json:"organization"`
	Role         string     `json:"role" enum:"owner,template-admin,member,auditor"`
	TokenID      uuid.UUID  `json:"token_id"`
	TokenName    string     `json:"token_name"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
}

// Token is a bearer token without its secret.
type Token struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	User       string     `json:"user"`
	Role       string     `json:"role"`
	Hint       string     `json:"hint" doc:"Its first characters"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	MadeWith   *uuid.UUID `json:"made_with,omitempty" doc:"The token it was made with, and ends with"`
}

// CreateTokenRequest makes a token for oneself, or (owners) for another user, who is made if need be.
type CreateTokenRequest struct {
	Name      string `json:"name" minLength:"1" maxLength:"64"`
	User      string `json:"user,omitempty" maxLength:"64" doc:"Oneself where empty"`
	Role      string `json:"role,omitempty" enum:"owner,template-admin,member,auditor" doc:"Of a user to be made; member where empty"`
	ExpiresIn string `json:"expires_in,omitempty" doc:"Such as 720h; never where empty" example:"720h"`
}

// CreatedToken is the only answer that ever holds a token's secret.
type CreatedToken struct {
	Token
	Secret string `json:"secret"`
}

// Pause stops creation and drains in a scope until resumed or expired; claims go on (C10).
type Pause struct {
	Scope     string     `json:"scope" enum:"global,provider,template,preset"`
	Target    string     `json:"target,omitempty" doc:"Provider, template or template/preset" example:"quickstart/default"`
	Reason    string     `json:"reason"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// PauseRequest pauses a scope.
type PauseRequest struct {
	Scope     string `json:"scope" enum:"global,provider,template,preset"`
	Target    string `json:"target,omitempty"`
	Reason    string `json:"reason" minLength:"1" maxLength:"500"`
	ExpiresIn string `json:"expires_in,omitempty" doc:"Such as 2h; until resumed where empty" example:"2h"`
}

// Reason is why something is so.
type Reason struct {
	Code string `json:"code,omitempty" doc:"For programs; codes are never renamed. Empty where there is nothing to tell apart"`
	Text string `json:"text" doc:"For people"`
}
