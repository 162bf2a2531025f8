package sdk

import (
	"time"

	"github.com/google/uuid"
)

// ForgeCredential is how Prewarm speaks to a forge. Its secret goes in and never comes out.
type ForgeCredential struct {
	Name           string    `json:"name" example:"acme-app"`
	Kind           string    `json:"kind" enum:"github,gitea"`
	URL            string    `json:"url" example:"https://api.github.com" doc:"Of the forge's API"`
	Auth           string    `json:"auth" enum:"token,app"`
	AppID          int64     `json:"app_id,omitempty"`
	InstallationID int64     `json:"installation_id,omitempty"`
	CABundle       bool      `json:"ca_bundle" doc:"Whether it trusts authorities of its own in addition to the usual"`
	SealedBy       string    `json:"sealed_by" doc:"The encryption key that its secret is sealed with"`
	Entities       int       `json:"entities" doc:"How many entities use it"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// PutForgeCredential makes a credential, or changes what is given of one.
type PutForgeCredential struct {
	Kind           string  `json:"kind,omitempty" enum:"github,gitea" doc:"Needed for a new one, and fixed from then on"`
	URL            string  `json:"url,omitempty" maxLength:"500" doc:"Default for github: https://api.github.com"`
	Token          string  `json:"token,omitempty" maxLength:"4096"`
	AppID          int64   `json:"app_id,omitempty" minimum:"0"`
	InstallationID int64   `json:"installation_id,omitempty" minimum:"0"`
	PrivateKey     string  `json:"private_key,omitempty" maxLength:"16384" doc:"Of the App, as PEM"`
	CABundle       *string `json:"ca_bundle,omitempty" maxLength:"262144" doc:"PEM; empty: only the usual authorities"`
}

// ForgeEntity is a repository, organization or enterprise whose jobs Prewarm has runners for (P1).
type ForgeEntity struct {
	ID            uuid.UUID   `json:"id"`
	Name          string      `json:"name" example:"acme"`
	Kind          string      `json:"kind" enum:"github,gitea"`
	Scope         string      `json:"scope" enum:"repository,organization,enterprise"`
	Path          string      `json:"path" example:"acme/shop"`
	Credential    string      `json:"credential"`
	Balance       string      `json:"balance" enum:"pack,spread" doc:"Among presets of one priority that can serve a job: fill one after the other, or the emptiest first"`
	WebhookURL    string      `json:"webhook_url" doc:"Where the forge is to send its deliveries"`
	HookID        int64       `json:"hook_id,omitempty" doc:"Of the webhook that Prewarm installed"`
	SecretOverlap *time.Time  `json:"secret_overlap,omitempty" doc:"Until when the webhook secret before is good too"`
	Stopped       string      `json:"stopped,omitempty" doc:"Why no new runners are made for it; left out where they are"`
	Draining      bool        `json:"draining,omitempty" doc:"While it is stopped, its runners without a job go"`
	StoppedAt     *time.Time  `json:"stopped_at,omitempty"`
	Status        ForgeStatus `json:"status"`
	Presets       []string    `json:"presets" doc:"Its runner presets, as template/preset"`
	Queued        int         `json:"queued" doc:"Jobs that wait for a runner"`
	Unserved      int         `json:"unserved" doc:"Of them, those that no preset can serve"`
	InProgress    int         `json:"in_progress"`
	Runners       int         `json:"runners" doc:"That are registered"`
	CreatedAt     time.Time   `json:"created_at"`
}

// ForgeStatus is how it goes with a forge.
type ForgeStatus struct {
	Running     bool       `json:"running" doc:"Not stopped, and the last round did not fail"`
	Error       string     `json:"error,omitempty" doc:"Of the last round that was asked of the forge, or why its webhooks cannot be checked"`
	ErrorAt     *time.Time `json:"error_at,omitempty"`
	SucceededAt *time.Time `json:"succeeded_at,omitempty"`
	Checked     bool       `json:"credential_checked" doc:"A round has succeeded since the credential last changed"`
	WaitUntil   *time.Time `json:"wait_until,omitempty" doc:"Nothing is asked of the forge before: after an error, or by its rate limit"`
	// Apart from that, as what a round may not see says nothing of runners.
	RunnersWaitUntil *time.Time `json:"runners_wait_until,omitempty" doc:"No replica registers or unregisters a runner there before: after an error of the forge, or by its rate limit"`
	RunnersError     string     `json:"runners_error,omitempty" doc:"That error"`

	RateLimit     int        `json:"rate_limit,omitempty" doc:"Requests in an hour; left out where the forge does not say"`
	RateRemaining int        `json:"rate_remaining,omitempty"`
	RateResetAt   *time.Time `json:"rate_reset_at,omitempty"`
	DeliveryAt    *time.Time `json:"delivery_at,omitempty" doc:"The last delivery that came"`
	Waiting       int        `json:"waiting" doc:"Deliveries not handled yet"`
}

// PutForgeEntity makes an entity, or changes what is given of one.
type PutForgeEntity struct {
	Scope         string `json:"scope,omitempty" enum:"repository,organization,enterprise" doc:"Needed for a new one, and fixed from then on"`
	Path          string `json:"path,omitempty" maxLength:"300" doc:"owner/repository, owner, or the enterprise's slug; left out for a whole Gitea; fixed from then on"`
	Credential    string `json:"credential,omitempty" maxLength:"64"`
	Balance       string `json:"balance,omitempty" enum:"pack,spread"`
	WebhookSecret string `json:"webhook_secret,omitempty" minLength:"16" maxLength:"500" doc:"Left out for a new one: made by chance"`
	OverlapS      int    `json:"overlap_s,omitempty" minimum:"0" maximum:"604800" doc:"How long the webhook secret before stays good, 1 day where left out"`
}

// SavedForgeEntity is an entity as it was made or changed.
type SavedForgeEntity struct {
	ForgeEntity
	WebhookSecret string `json:"webhook_secret,omitempty" doc:"Where it was made by chance just now: it is never shown again"`
	HookError     string `json:"hook_error,omitempty" doc:"Why the webhook that Prewarm installed did not get the new secret"`
}

// RotateForgeSecret asks for another webhook secret.
type RotateForgeSecret struct {
	WebhookSecret string `json:"webhook_secret,omitempty" minLength:"16" maxLength:"500" doc:"Left out: made by chance"`
	OverlapS      int    `json:"overlap_s,omitempty" minimum:"0" maximum:"604800" doc:"How long the one before stays good, 1 day where left out"`
}

// ForgeCheck is what came of asking a forge for what Prewarm needs of it.
type ForgeCheck struct {
	OK    bool             `json:"ok" doc:"Nothing failed"`
	Steps []ForgeCheckStep `json:"steps"`
}

// ForgeCheckStep is one thing that was asked for.
type ForgeCheckStep struct {
	Name    string `json:"name" enum:"credential,runners,webhook,deliveries,rate"`
	Outcome string `json:"outcome" enum:"passed,failed,not_offered"`
	Detail  string `json:"detail,omitempty" doc:"What was found, or what is missing and what to do"`
}

// Resealed says how many secrets are sealed with the newest key now.
type Resealed struct {
	SealedBy    string `json:"sealed_by" doc:"The encryption key"`
	Credentials int    `json:"credentials" doc:"That were sealed with another one before"`
	Entities    int    `json:"entities"`
	SigningKeys int    `json:"signing_keys" doc:"Of instance tokens, which stay good"`
	States      int    `json:"states" doc:"Of Terraform"`
}

// StopForgeEntity says why no new runners are to be made for an entity for now.
type StopForgeEntity struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
	Drain  bool   `json:"drain,omitempty" doc:"Its runners without a job go too"`
}

// ForgeHook is the webhook at the forge.
type ForgeHook struct {
	ID         int64    `json:"id"`
	URL        string   `json:"url"`
	Events     []string `json:"events"`
	Active     bool     `json:"active"`
	LastStatus string   `json:"last_status,omitempty" doc:"Of its last delivery, as the forge says"`
	Ours       bool     `json:"ours" doc:"Prewarm installed it, or took it over; else a person made it"`
	// Others call the same URL, so that every event arrives twice.
	Others []ForgeHook `json:"others,omitempty" doc:"Webhooks that call the same URL, and that Prewarm did not install"`
}

// ForgeJob is one attempt of a job of a forge.
type ForgeJob struct {
	ID          uuid.UUID  `json:"id"`
	Entity      string     `json:"entity"`
	JobID       int64      `json:"job_id" doc:"The forge's"`
	Attempt     int        `json:"attempt"`
	Repository  string     `json:"repository"`
	Workflow    string     `json:"workflow,omitempty"`
	Name        string     `json:"name"`
	URL         string     `json:"url,omitempty"`
	Labels      []string   `json:"labels"`
	State       string     `json:"state" enum:"waiting,queued,in_progress,completed"`
	Conclusion  string     `json:"conclusion,omitempty"`
	Template    string     `json:"template,omitempty" doc:"Whose demand it is, or was"`
	Preset      string     `json:"preset,omitempty"`
	Unserved    string     `json:"unserved,omitempty" doc:"Why nothing can serve it"`
	Delay       *JobDelay  `json:"delay,omitempty" doc:"Why it waits though a preset is to serve it; left out where there is no reason but its runner's making"`
	Runner      string     `json:"runner,omitempty" doc:"That it runs or ran on: the name of the workspace, or what the forge calls one that is none of ours"`
	Workspace   *uuid.UUID `json:"workspace_id,omitempty" doc:"The runner's, where it is one of ours"`
	QueuedAt    time.Time  `json:"queued_at"`
	StartedAt   *time.Time `json:"started_at,omitempty"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
	WaitS       float64    `json:"wait_s" doc:"Seconds from queued to started, or until now"`
}

// JobDelay is why a job waits though a preset is to serve it.
type JobDelay struct {
	Code  string    `json:"code" enum:"forge_left_alone" doc:"forge_left_alone: no runner is registered at the forge for now, since it is not well or was asked too much"`
	Text  string    `json:"text"`
	Until time.Time `json:"until"`
}

// ForgeJobCounts counts jobs, of all entities or of one.
type ForgeJobCounts struct {
	Waiting    int `json:"waiting" doc:"Held back by the forge"`
	Queued     int `json:"queued"`
	Unserved   int `json:"unserved" doc:"Of the queued, those that no preset can serve"`
	InProgress int `json:"in_progress"`
	Completed  int `json:"completed" doc:"In the last 24 hours"`
}

// ForgeJobList is one page of jobs, newest first.
type ForgeJobList struct {
	Jobs   []ForgeJob     `json:"jobs"`
	Counts ForgeJobCounts `json:"counts" doc:"Of the entity that was asked for, or of all; other filters do not narrow them"`
	Next   string         `json:"next,omitempty" doc:"Give it as after to get the next page; empty on the last"`
}

// RunnerList is one page of runners, newest first.
type RunnerList struct {
	Runners []Runner `json:"runners"`
	Next    string   `json:"next,omitempty" doc:"Give it as after to get the next page; empty on the last"`
}

// Runner is a workspace that is a runner of a forge.
type Runner struct {
	Name         string     `json:"name" doc:"Of its workspace; at the forge too, unless its provider has a longer one"`
	WorkspaceID  uuid.UUID  `json:"workspace_id"`
	State        string     `json:"state" doc:"Of the workspace"`
	Status       string     `json:"status" enum:"pending,idle,active,offline,gone" doc:"At the forge"`
	StatusAt     time.Time  `json:"status_at"`
	Entity       string     `json:"entity"`
	Template     string     `json:"template"`
	Preset       string     `json:"preset"`
	RunnerID     int64      `json:"runner_id,omitempty" doc:"The forge's"`
	Labels       []string   `json:"labels"`
	Job          *ForgeJob  `json:"job,omitempty" doc:"That it is at"`
	RegisteredAt *time.Time `json:"registered_at,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
}

// RunnerSettings make a preset one of runners.
type RunnerSettings struct {
	Forge   string   `json:"forge" doc:"The entity's name"`
	Labels  []string `json:"labels"`
	Group   string   `json:"group,omitempty"`
	Maximum int      `json:"maximum,omitempty" doc:"Runners, busy or not; left out: no limit of its own"`

	RegistrationTimeout string `json:"registration_timeout,omitempty" doc:"How long one may take from being up to being seen at its forge" example:"10m0s"`
}

// RunnerReport is what the inside of a workspace says of its runner.
type RunnerReport struct {
	Status  string `json:"status" enum:"idle,active,finished"`
	Message string `json:"message,omitempty" maxLength:"4096" doc:"For the log of who runs it; not kept"`
}

// RunnerConfiguration is how a runner connects to its forge. It is a secret, and is read once.
type RunnerConfiguration struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind" enum:"github,gitea"`
	URL       string     `json:"url" doc:"Where the runner registers with a token"`
	JITConfig string     `json:"jit_config,omitempty" doc:"For run.sh --jitconfig"`
	Token     string     `json:"token,omitempty" doc:"Of registration, where the forge makes no configuration"`
	Labels    []string   `json:"labels"`
	Group     string     `json:"group,omitempty"`
	Ephemeral bool       `json:"ephemeral" doc:"It takes one job and ends"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	CABundle  string     `json:"ca_bundle,omitempty" doc:"PEM: what to trust the forge by, in addition to the usual"`
}
