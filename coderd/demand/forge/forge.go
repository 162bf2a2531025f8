package forge

import (
	"context"
	"net/http"
	"time"
)

// Scope is what an entity is.
type Scope string

// The scopes. Not every forge has every one: Connect refuses those it lacks.
const (
	Repository   Scope = "repository"
	Organization Scope = "organization"
	Enterprise   Scope = "enterprise"
)

// Connection is how to speak to one entity of a forge.
type Connection struct {
	URL      string // of the API, without a slash at the end: https://api.github.com, https://host/api/v3, https://gitea.host
	Scope    Scope
	Path     string // owner/repository, owner, or the enterprise's slug
	Token    string // a secret; empty where App is given
	App      *App
	CABundle []byte // PEM, any number of authorities, trusted beside the usual ones; may be empty
	// Now is the time by which tokens and rate limits end; nil: the machine's.
	Now func() time.Time
}

// App is a GitHub App as one installation of it.
type App struct {
	ID             int64
	InstallationID int64
	PrivateKey     []byte // PEM; a secret
}

// Kind is one kind of forge. It is safe for concurrent use.
type Kind interface {
	// Delivery reads what a webhook's headers say. An error means that they are not of this kind of forge.
	Delivery(h http.Header) (Delivery, error)
	// Job is what a delivery says of a job: nil with no error for an event that is of something else. The body was checked
	// for its signature before, and for nothing else.
	Job(event string, body []byte) (*Job, error)
	// Connect makes a client. It asks the forge nothing; what is wrong with the connection itself is an error.
	Connect(c Connection) (Forge, error)
}

// Delivery is a webhook's envelope.
type Delivery struct {
	ID        string // the same when it is delivered again
	Event     string // workflow_job, ping, …
	Signature []byte // HMAC-SHA256 of the raw body; empty where there was none
}

// JobState is where a job stands.
type JobState string

// The states of jobs, in their order. Waiting is held back by the forge (an approval, a concurrency group): no demand
// yet, but announced.
const (
	Waiting    JobState = "waiting"
	Queued     JobState = "queued"
	InProgress JobState = "in_progress"
	Completed  JobState = "completed"
)

// Job is one attempt of a job, as far as the forge told. What it did not tell is zero: a forge that sends the year 1970 for a
// time that is not set, or attempt 0, is corrected by its Kind.
type Job struct {
	ID          int64
	RunID       int64
	Attempt     int // from 1
	State       JobState
	Repository  string // owner/repository
	Workflow    string
	Name        string
	URL         string   // for people
	Labels      []string // as written; matched without regard to case
	Conclusion  string   // of a completed one: success, failure, cancelled, …
	RunnerID    int64    // 0: none yet
	RunnerName  string
	QueuedAt    time.Time
	StartedAt   time.Time
	CompletedAt time.Time
}

// RunnerStatus is what a forge says of a runner.
type RunnerStatus string

// The states of runners in a listing.
const (
	Idle    RunnerStatus = "idle"   // connected, without a job
	Active  RunnerStatus = "active" // at a job
	Offline RunnerStatus = "offline"
)

// Runner is one of a forge's listing.
type Runner struct {
	ID     int64
	Name   string
	Status RunnerStatus
	Labels []string
}

// NewRunner is a runner to be.
type NewRunner struct {
	Name   string
	Labels []string
	Group  string // empty: the forge's default
}

// Registration is how a runner registers: by the configuration where the forge makes one, else by a token. Both are secrets.
type Registration struct {
	RunnerID  int64     `json:"runner_id,omitempty"` // 0: known when it has registered
	JITConfig string    `json:"jit_config,omitempty"`
	Token     string    `json:"token,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: not known
	URL       string    `json:"url"`                 // where the runner registers with a token
}

// Tool is a download of the forge's runner for one platform (P5).
type Tool struct {
	OS, Arch, URL, Filename, SHA256, Token string
}

// Hook is a webhook at the forge.
type Hook struct {
	ID     int64    `json:"id"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	Active bool     `json:"active"`
	// LastStatus is what came of its last delivery, as the forge says it; empty where it does not.
	LastStatus string `json:"last_status,omitempty"`
}

// Sent is a delivery that the forge has made, or tried to.
type Sent struct {
	ID    int64  // for Body
	GUID  string // the delivery's, the same when it is delivered again
	Event string
	At    time.Time
	OK    bool // it was answered with 2xx
}

// Rate is what the forge last said of its limit on requests; zero where it has not.
type Rate struct {
	Limit     int
	Remaining int
	ResetAt   time.Time
}

// Forge is one entity of a forge. It is safe for concurrent use, and every call ends with its context.
type Forge interface {
	// Register makes the runner known and returns how it connects. ErrConflict: one of that name is there already.
	Register(ctx context.Context, r NewRunner) (Registration, error)
	// Runners lists all runners of the entity, to the last page: an error means that the listing is not complete, and worth
	// nothing.
	Runners(ctx context.Context) ([]Runner, error)
	// RunnerNamed finds one by its name; ErrNotFound where there is none.
	RunnerNamed(ctx context.Context, name string) (Runner, error)
	// RemoveRunner unregisters, after which the runner is given no job. ErrBusy: it has one, and nothing was done. ErrNotFound:
	// there is none of that id, which is fine.
	RemoveRunner(ctx context.Context, id int64) error
	// RegistrationToken gets a token by which a runner makes itself known: for one that is not given a configuration.
	RegistrationToken(ctx context.Context) (Registration, error)
	// JIT says whether Register makes just-in-time configurations; else it gets tokens.
	JIT(ctx context.Context) (bool, error)
	// Page is the entity's address for people: the repository, the organization, the enterprise. GitHub's runners register there.
	Page() string
	// Tools are the downloads of the forge's runner; none where the forge has none.
	Tools(ctx context.Context) ([]Tool, error)

	// Job asks after one job; ErrNotFound where it is gone.
	Job(ctx context.Context, repository string, id int64) (Job, error)
	// OpenJobs lists jobs that are queued or in progress. Repositories are those to look in where the entity is larger than one
	// and the forge has no listing above them.
	OpenJobs(ctx context.Context, repositories []string) ([]Job, error)

	// Hooks are the webhooks that call url, no matter who made them. ErrUnsupported: the forge has no API for it at this scope.
	Hooks(ctx context.Context, url string) ([]Hook, error)
	// InstallHook makes the webhook for jobs that calls url, or brings the one of that id up to date, which is 0 for none.
	// Where that is gone, or the forge can't change its secret, another is made: the one before is the caller's to remove.
	// ErrUnsupported: the forge has no API for it at this scope, and a person must do it.
	InstallHook(ctx context.Context, url, secret string, id int64) (Hook, error)
	// Hook is the webhook of that id; ErrNotFound.
	Hook(ctx context.Context, id int64) (Hook, error)
	// PingHook has the forge send a ping (GitHub) or a test delivery (Gitea).
	PingHook(ctx context.Context, id int64) error
	// RemoveHook removes it; ErrNotFound is fine.
	RemoveHook(ctx context.Context, id int64) error
	// Deliveries are those that the webhook made since an instant, newest first. ErrUnsupported where the forge keeps none.
	Deliveries(ctx context.Context, hook int64, since time.Time) ([]Sent, error)
	// DeliveryBody is the raw body of one.
	DeliveryBody(ctx context.Context, hook, id int64) ([]byte, error)

	// Rate is what was last heard of the limit on requests, without asking.
	Rate() Rate
}
