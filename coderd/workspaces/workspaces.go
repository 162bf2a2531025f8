package workspaces

import (
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// Prewarm is the built-in identity that owns prebuilds and initiates what passes and workers do (C16).
var Prewarm = uuid.MustParse("00000000-0000-4000-8000-000000000002")

// ForgeJobs is the built-in identity in whose name the jobs of forges claim runners.
var ForgeJobs = uuid.MustParse("00000000-0000-4000-8000-000000000003")

// ErrLost: the workspace or its job had moved on. The caller's work is void; nothing was changed.
var ErrLost = errors.New("lost the race for the workspace")

// ErrNotFound: there never was such a workspace.
var ErrNotFound = errors.New("workspace not found")

// ErrNotClaimed: only a claimed workspace can be released.
var ErrNotClaimed = errors.New("workspace is not claimed")

// ErrGone: the workspace is already being deleted, or deleted.
var ErrGone = errors.New("workspace is already going")

// ErrNotQuarantined: only a quarantined workspace can be tried again, or a claimed one whose apply for its owner has failed.
var ErrNotQuarantined = errors.New("workspace is not quarantined, and no apply for its owner has failed")

// ErrNotKept: it is claimed, or being built or reset, or already going: it can't be kept for inspection.
var ErrNotKept = errors.New("workspace cannot be kept for inspection: it must be starting, ready, standby or quarantined, " +
	"and not being reset")

// Actor is who did it and from where, for history and audit.
type Actor struct {
	UserID uuid.UUID
	Source string // remote address, or the replica for the built-in identity
	Reason string
	// Incarnation is the one that a person saw and means. A workspace that has been used again since is another's, and
	// not touched. 0: whichever there is.
	Incarnation int32
}

// Lease is the right to end one job: worthless once the job was leased anew or cancelled.
type Lease struct {
	JobID       uuid.UUID
	Attempt     int32
	WorkspaceID uuid.UUID
	Incarnation int32
}

// Moved names what a transition touched, for nudges and notifications.
type Moved struct {
	WorkspaceID uuid.UUID
	TemplateID  uuid.UUID
	PresetID    uuid.UUID
}

// Writer makes transitions. It is safe for concurrent use.
type Writer struct {
	store    *database.Store
	newID    func() uuid.UUID
	replica  string // the source of what the built-in identity does
	claimed  func(ids ...uuid.UUID)
	released func(Moved)
}

// New returns a Writer that acts for one replica. Ids come from newID, so that a simulation owns them.
func New(store *database.Store, newID func() uuid.UUID, replica string) *Writer {
	return &Writer{store: store, newID: newID, replica: replica, claimed: func(...uuid.UUID) {}, released: func(Moved) {}}
}

// OnClaimed sets what is called with workspaces that were claimed, after the commit: their agents are to be told (C14).
// It must return at once. To be set before the first claim.
func (w *Writer) OnClaimed(claimed func(ids ...uuid.UUID)) { w.claimed = claimed }

// OnReleased sets what is called with a workspace whose claim ended, after the commit. It must return at once. To be set
// before the first release.
func (w *Writer) OnReleased(released func(Moved)) { w.released = released }

// System is the actor of passes and workers on this replica.
func (w *Writer) System(reason string) Actor {
	return Actor{UserID: Prewarm, Source: w.replica, Reason: reason}
}

// lost turns the absence of a row into ErrLost.
func lost(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrLost
	}
	if err != nil {
		return xerrors.Errorf("%s: %w", what, err)
	}
	return nil
}
