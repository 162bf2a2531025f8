package judge

import (
	"time"

	"github.com/google/uuid"
)

// Claim is what one client asked for and was told. It asked until it was answered.
type Claim struct {
	Key        string
	Asked      time.Time // for the first time
	Answered   time.Time // zero: never
	Workspaces []uuid.UUID
	ClaimID    uuid.UUID
	// ReleaseAsked is when the client first asked to be rid of it; zero: it still wants it.
	ReleaseAsked    time.Time
	ReleaseAnswered time.Time
}

// Event is a line of the provider's journal. It was written at some time between the two given.
type Event struct {
	Deleted     bool
	ProviderID  string
	WorkspaceID uuid.UUID
	NotBefore   time.Time
	NotAfter    time.Time
}

// Freeze is a time during which a replica did not run.
type Freeze struct {
	Replica  string
	From, To time.Time
}

// Workspace is what the installation says of one at the end.
type Workspace struct {
	State     string
	ClaimID   uuid.UUID
	CreatedAt time.Time
	DeletedAt time.Time // zero: it is not
}

// Evidence is everything there is to judge by.
type Evidence struct {
	Claims     []Claim
	Events     []Event                 // in their order
	Left       map[string]uuid.UUID    // the provider's listing at the end: workspaces by provider id
	Workspaces map[uuid.UUID]Workspace // all there ever were
	Freezes    []Freeze
	Maximum    int           // of the provider
	Crowd      int           // most workspaces that the installation counted at any commit
	LateGrace  time.Duration // how long a late create may stay
}
