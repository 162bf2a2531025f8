// Package provider is the border to where workspaces live: the interface that every provider implements, and the errors
// by which the lifecycle workers decide what comes next.
//
// The contract, which providertest checks for all of them:
//
//   - Create is idempotent by name and tags: called again with the same request, after a success or after being cut off
//     anywhere, it yields one resource. A resource of that name with other tags is an error and stays untouched.
//   - Delete is idempotent and succeeds for what does not exist; when it returns nil, nothing of the resource is left.
//   - A provider is safe for concurrent use, and every call returns soon after its context ends. What an interrupted
//     call left behind is found again by name.
//   - List returns only what carries this installation's tag.
//   - An error says what is wrong. Which call failed, and for which workspace, is said by Guarded for all of them.
//
// No call is made inside a database transaction (I8); Guarded enforces it. What a provider can do beyond Provider (be
// Sited, an Execer, a Logger, a Stopper, a Resetter, a Reserver) is asked for with As, which sees through such wrappers.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// Provider makes, finds and deletes workspaces at one place. The name it is configured under is not its concern.
type Provider interface {
	// Validate checks a template's spec together with a preset's parameters, without looking at the world. It returns
	// every problem found, none if the spec can be created from.
	Validate(spec json.RawMessage, parameters map[string]string) []Problem
	// Create makes the workspace, or finds the one it made before. It returns as soon as the resource exists; readiness
	// is asked for with Ready. An Instance with StatusError is a resource that exists and is broken.
	Create(ctx context.Context, req CreateRequest) (Instance, error)
	// Get looks one up. ErrNotFound if it is not there.
	Get(ctx context.Context, ref Ref) (Instance, error)
	// List returns all resources tagged with the installation, without their Environment, which of a large fleet would be
	// most of it. Incomplete listings are errors.
	List(ctx context.Context, installation uuid.UUID) ([]Instance, error)
	// Ready asks once whether the workspace can be handed out. It does not wait.
	Ready(ctx context.Context, ref Ref) (Readiness, error)
	// Delete removes everything of the resource. What does not exist is deleted already.
	Delete(ctx context.Context, ref Ref) error
}

// Sited is a provider whose resources are reached only from one place, such as the processes of one machine. Work on
// such a resource is leased only to replicas with the same site.
type Sited interface {
	// Site identifies the place; it is the same for all replicas that reach the same resources, and never changes.
	Site() string
}

// Checker is a provider that can ask the place itself whether it would take a workspace.
type Checker interface {
	// Check returns what the place would refuse for good, and makes nothing. The request is that of a create, with a name that
	// nothing has. An error: the place does not answer, or says nothing of it.
	Check(ctx context.Context, req CreateRequest) ([]Problem, error)
}

// AgentHost is a provider that runs the agent in a workspace whose CreateRequest has a Callback. A template with an agent
// is refused at any other.
type AgentHost interface {
	HostsAgent()
}

// Spoken is a provider that is spoken with by a protocol, by versions of which it can do more or less.
type Spoken interface {
	Spoken() Protocol
}

// Protocol is what is spoken with a provider, and what follows for the first boot of its workspaces.
type Protocol struct {
	Version string // such as v0.1.0
	Schema  bool   // it says what of a spec it understands
	// InstallScript is the key of the spec's extra_specs that hands over the script of the first boot; empty: none is handed
	// over, and no agent can be installed.
	InstallScript string
	NoAgent       string // why no agent can be installed, and what to do; empty where one can
}

// TokenTaker is a provider that wants a Callback for every workspace, also where its template has no agent: what an image
// or its user data run may report by it.
type TokenTaker interface {
	TakesTokens()
}

// RunnerTaker is a provider that wants to know what a workspace is to be at a forge. The forge is asked before each create.
type RunnerTaker interface {
	TakesRunners()
}

// StateTaker is a provider that keeps what it made in a state, which the server stores for it. Each Create, HandOver and Delete is a run
// with a State of its own (WithState).
type StateTaker interface {
	// TakeTurn waits until no other run of the workspace goes on in this process. Its error is that of ctx.
	TakeTurn(ctx context.Context, workspaceID uuid.UUID) (done func(), err error)
}

// ArchiveTaker is a provider whose specs may name an archive that people have uploaded. A version is made only of one that its
// organization has.
type ArchiveTaker interface {
	// ArchiveOf is the digest that a valid spec names; empty: none.
	ArchiveOf(spec json.RawMessage) string
}

// State is where a run reads and writes the state of its workspace, and how it shows that it may. It is good for this run only: it ends
// with the attempt, or when the next run begins.
type State struct {
	User  string
	Token string // secret
}

// RunnerNamer is a provider whose workspaces have other names inside than ours: a runner that registers by itself does so by
// that one.
type RunnerNamer interface {
	// RunnerName is what the workspace of that name and id is called inside.
	RunnerName(name string, id uuid.UUID) string
}

// Execer is a provider that can run a command inside a workspace.
type Execer interface {
	// Exec runs the command to its end and returns its exit status. Ending ctx kills it.
	Exec(ctx context.Context, ref Ref, req ExecRequest) (exitCode int, err error)
}

// MakingLogger is a Logger whose output begins when a workspace is made, before there is a resource, and stays where that fails.
type MakingLogger interface {
	Logger
	LogsMaking()
}

// Stopper is a provider that can stop a workspace without losing it, and start it again. Both are idempotent.
type Stopper interface {
	Stop(ctx context.Context, ref Ref) error
	Start(ctx context.Context, ref Ref) error
}

// StopChecker is a Stopper that can stop the workspaces of some specs only.
type StopChecker interface {
	Stopper
	// CheckStop is nil where those of a valid spec can be stopped; else why not, and what to do.
	CheckStop(spec json.RawMessage, parameters map[string]string) error
}

// Isolator is a provider that may not be able to end all that runs in a workspace, depending on the machine.
type Isolator interface {
	// Isolated is nil where all ends with its workspace; else why that is not sure. A template that has its workspaces used
	// again is refused then, and so are secrets at a claim: what is left could read those of the next user.
	Isolated() error
}

// Resetter is a provider that can make a used workspace like new. A template that has its workspaces used again is refused
// at any other.
type Resetter interface {
	// Reset makes of the workspace of that name what Create would make of the request, with nothing left of before. The
	// incarnation in the request's tags is the fence: ErrSuperseded, with nothing touched, where the resource is of a later
	// one; where it is of that one already, Reset finds what it made before. ErrNotFound if nothing is there.
	Reset(ctx context.Context, req CreateRequest) (Instance, error)
}

// Logger is a provider that keeps the output of a workspace.
type Logger interface {
	// Logs returns the output from the beginning; with follow it goes on until the workspace is gone or ctx ends.
	Logs(ctx context.Context, ref Ref, follow bool) (io.ReadCloser, error)
}

// Observer is a provider that can report resources in trouble at once, so that nobody has to ask for all of them.
type Observer interface {
	// Observe reports workspaces of the installation whose resource has failed, is being taken away or is gone. It returns when ctx
	// ends, or with an error. The caller calls it again after an error, and it reports again what is still in trouble. A report may
	// be about a deletion that Prewarm asked for: the caller asks Get what is true.
	Observe(ctx context.Context, installation uuid.UUID, trouble func(workspaceID uuid.UUID)) error
}

// Marker is a provider where the place itself shows which workspaces are claimed, and whose they are.
type Marker interface {
	// Mark shows it on the resource of a workspace. It is idempotent. ErrNotFound where that is not there.
	Mark(ctx context.Context, ref Ref, claim Claim) error
}

// Handover is a provider that can make what it made its owner's, after the claim, which does not wait for it. It is asked where the spec
// says HandoverKey: after or before.
type Handover interface {
	// HandOver does so, and is idempotent. What would have to be replaced or removed for it is refused with a permanent error, and
	// nothing is touched then. ErrNotFound where the workspace is not there.
	HandOver(ctx context.Context, req HandoverRequest) (Instance, error)
}

// HandoverKey is what a spec says when its workspaces are handed over by: HandoverNever, the default; HandoverAfter, beside the use
// of the workspace; HandoverBefore, so that who waits until it is ready waits for that too.
const (
	HandoverKey    = "apply_on_claim"
	HandoverNever  = "never"
	HandoverAfter  = "after"
	HandoverBefore = "before"
)

// HandoverRequest says of which workspace, and whose it is now.
type HandoverRequest struct {
	Ref     Ref // with the state of the run, at a StateTaker
	OwnerID uuid.UUID
	Owner   string
}

// Composed is a provider whose workspaces are made of resources that have names.
type Composed interface {
	// Resources names those of a workspace, of many only the first. ErrNotFound where it is not there.
	Resources(ctx context.Context, ref Ref) ([]string, error)
}

// Drifter is a provider that can look whether a workspace still is as it was made.
type Drifter interface {
	// DriftEvery is how often each workspace is to be looked at; 0: never.
	DriftEvery() time.Duration
	// Drift names what was changed or removed at the place itself, of many only the first. A look takes as long as a create may, and
	// changes nothing. ErrNotFound where the workspace is not there.
	Drift(ctx context.Context, ref Ref) ([]string, error)
}

// DriftEvery is how often a provider looks at each workspace for drift; 0: never, also where it cannot.
func DriftEvery(p Provider) time.Duration {
	if d, ok := As[Drifter](p); ok {
		return d.DriftEvery()
	}
	return 0
}

// Claim is what a Marker shows.
type Claim struct {
	ID    uuid.UUID
	Owner string
	Tags  Tags // of the workspace: what has others is not it
}

// CheckPrefix begins the names of what a check of a provider makes, and of nothing else: no row is of these, and inventories
// leave them to the check for as long as one may take.
const CheckPrefix = "check-"

// Tags go on every resource, so that it is recognised without the database.
type Tags struct {
	Installation uuid.UUID `json:"installation"`
	WorkspaceID  uuid.UUID `json:"workspace_id"`
	Incarnation  int32     `json:"incarnation"`
}

// CurrentDefaults are those of versions that are applied now. 0, those of 0.1: containers have what their engine gives; 1:
// they have no new privileges, and few capabilities.
const CurrentDefaults = 1

// CreateRequest is all that a provider learns of a workspace. Name is unique for ever, and safe as a file name and a
// DNS label.
type CreateRequest struct {
	Name         string
	Tags         Tags
	Organization string
	Template     string
	Preset       string
	Spec         json.RawMessage
	Parameters   map[string]string
	// Defaults are those that hold where the spec says nothing: CurrentDefaults for a version that is applied now, less for
	// one that was applied before they came.
	Defaults int16
	// Machine is the one reserved for it, at a Reserver; empty elsewhere.
	Machine string
	// Callback is how what runs inside reports for itself; zero where nothing does.
	Callback Callback
	// Runner is what the workspace is to be at a forge, for a provider that takes it (RunnerTaker); nil: nothing.
	Runner *Runner
	// State is that of the run, at a StateTaker.
	State State
}

// Runner is what a workspace is to be at a forge, as far as it is no secret (G2).
type Runner struct {
	Group  string // empty: the forge's default
	Labels []string
	// URL is the entity's page at the forge: the repository, the organization or the enterprise, where a runner registers.
	URL string
	// JIT: the forge makes just-in-time configurations; else a runner registers with a token.
	JIT bool
	// CABundle is PEM, any number of authorities: what to trust the forge by, beside the usual. Empty: the usual are enough.
	CABundle []byte
	// Tools are the downloads of the forge's runner, one for each platform; none where the forge has none.
	Tools []Tool
}

// Verdict is whether a workspace may go, as far as the forge of its runner is concerned.
type Verdict struct {
	Done bool          // nothing of it is registered (any more)
	Busy bool          // it has a job: the veto (P7)
	Why  string        // for people
	Wait time.Duration // when to ask again where it is not done
}

// Tool is a download of a forge's runner for one platform, in the forge's words for it: linux, x64.
type Tool struct {
	OS, Arch, URL, Filename, SHA256 string
	Token                           string // for the download, where it needs one; a secret
}

// Callback is where the inside of a workspace reports its status and reads what it is, and the token it does so with
// (G2). The token is a secret: a provider hands it to the workspace by a way that others cannot read, and puts it into no
// log, no argument and no environment. It dies with the attempt that it was made for (G7), so that it is never replaced
// in a resource that exists: that is deleted and made anew.
type Callback struct {
	CallbackURL string // of reports: POST
	MetadataURL string // of what the workspace is: GET
	Token       string // for both; empty where there is no way back
	CABundle    []byte // PEM: what to trust the server by, beside the usual; empty where that is enough
	// InstallScript installs the agent, where the provider has a script run at the first boot. It is a Go template, with
	// the variables that GARM gives a runner_install_template.
	InstallScript []byte
}

// Ref names a resource: by the provider's id where one is known, else by name. Where WorkspaceID is given, a resource
// that is tagged for another workspace is not the one meant: it counts as not found, and Delete leaves it alone. So a
// worker that cleans up after ErrConflict by name cannot hit somebody else's.
type Ref struct {
	Name        string
	ProviderID  string
	WorkspaceID uuid.UUID
	// Machine is the one that was reserved for it, at a Reserver: where it is if ProviderID is not known yet. Empty: look at
	// all of them.
	Machine string
	// State is that of the run, for Delete at a StateTaker.
	State State
}

// Status is what the provider says of a resource.
type Status string

const (
	StatusRunning Status = "running"
	StatusStopped Status = "stopped"
	StatusError   Status = "error"
	StatusUnknown Status = "unknown"
)

// Address is where a workspace is reached. Type is "tcp", "dir" or another word of the provider's.
type Address struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// Instance is a resource as the provider sees it.
type Instance struct {
	ProviderID  string
	Name        string
	Tags        Tags
	Status      Status
	Fault       string // with StatusError: what the provider says is wrong
	Lost        bool   // with StatusError: the place takes it away or has lost it; its user has no part in that
	Marked      bool   // at a Marker: it shows a claim
	Addresses   []Address
	Environment map[string]string // what a user needs to enter it; handed out with the claim; not in listings
	CreatedAt   time.Time         // zero where the provider does not know
	OSName      string            // such as ubuntu; empty where the provider does not say
	OSVersion   string            // such as 24.04; as OSName
	// KnownAs are all ids by which it may have been recorded, from a provider that can tell: recorded by another, it is
	// another resource, whatever its name and tags. Nil: the provider cannot.
	KnownAs []string
}

// Readiness is the answer to one question. Detail says what is waited for, or what came to an end.
type Readiness struct {
	Ready     bool
	Failed    bool // it will never become ready: its setup failed or its command ended
	Transient bool // with Failed: the cause is not the workspace's, and another one may become ready, such as on another node
	Detail    string
}

// ExecRequest runs Command with the workspace's directory and environment, plus Env.
type ExecRequest struct {
	Command []string
	Env     map[string]string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	TTY     bool
	Resize  <-chan WindowSize // with TTY
}

// Resizes gives the command's terminal the sizes that come, until the command has ended.
func (r ExecRequest) Resizes(ended <-chan struct{}, resize func(WindowSize)) {
	for {
		select {
		case <-ended:
			return
		case size, ok := <-r.Resize:
			if !ok {
				return
			}
			resize(size)
		}
	}
}

// WindowSize is a terminal's size in characters.
type WindowSize struct{ Rows, Cols uint16 }

// Problem is one thing wrong with a spec. Path is from the spec's root, such as "readiness.tcp"; for parameters it
// starts with "parameters.".
type Problem struct {
	Path    string
	Message string
}

// SpecError says all that is wrong with a spec, which no retry changes; nil where nothing is.
func SpecError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	lines := lists.Of(problems, func(p Problem) string { return p.Path + ": " + p.Message })
	return Permanent(xerrors.Errorf("check spec: %s", strings.Join(lines, "; ")))
}

// ErrNotFound: the provider has no such resource. For Delete that is success.
var ErrNotFound = errors.New("not found at the provider")

// ErrConflict: the name is taken by a resource with other tags, which stays untouched.
var ErrConflict = errors.New("name is taken by a resource that is not this workspace")

// ErrSuperseded: the resource is of a later incarnation than the one that was meant.
var ErrSuperseded = errors.New("the workspace is of a later incarnation by now")

// PermanentError is a failure that a retry cannot mend, such as a spec the provider refuses.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent marks err so that it is not retried.
func Permanent(err error) error { return &PermanentError{Err: err} }

// IsPermanent says whether a retry is pointless.
func IsPermanent(err error) bool {
	var p *PermanentError
	return errors.As(err, &p) || errors.Is(err, ErrConflict) || errors.Is(err, ErrSuperseded)
}
