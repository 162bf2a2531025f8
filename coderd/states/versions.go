package states

import (
	"context"
	"crypto/md5" //nolint:gosec // the protocol's, against broken transfers
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// MaxBytes is how large a state may be.
const MaxBytes = 64 << 20

// ErrNone: nothing was stored for the workspace yet.
var ErrNone = errors.New("the workspace has no state yet")

// ErrNotLocked: who writes does not hold the lock.
var ErrNotLocked = errors.New("the state is written only by who has locked it")

// ErrOvertaken: a state with that serial, or a later one, is stored already.
var ErrOvertaken = errors.New("a state as new as this one is stored already")

// ErrBadState: what should be a state is none.
var ErrBadState = errors.New("a state is a JSON object with a lineage and a serial, of at most 64 MiB")

// Read returns the newest state of the run's workspace, with its MD5. The errors are ErrNone, *seal.NoKey and those of the
// database.
func (s *Service) Read(ctx context.Context, run Run) (state []byte, sum [md5.Size]byte, err error) {
	row, err := statesdb.New(s.Store).NewestTerraformState(ctx, run.WorkspaceID)
	if database.NoRows(err) {
		return nil, sum, ErrNone
	}
	if err != nil {
		return nil, sum, xerrors.Errorf("read state: %w", err)
	}
	if state, err = s.open(row); err != nil {
		return nil, sum, err
	}
	return state, [md5.Size]byte(row.Md5), nil
}

// State is the newest of a workspace. The errors are those of Read.
func (s *Service) State(ctx context.Context, workspaceID uuid.UUID) ([]byte, error) {
	state, _, err := s.Read(ctx, Run{WorkspaceID: workspaceID})
	return state, err
}

// writeTimeout bounds what the database does for a write. Reading and sealing a large state take as long as they take.
const writeTimeout = 30 * time.Second

// mostWriting is how many bytes of states one process writes at once; a larger one is written alone. Each takes several times its size
// of memory, a processor, and a connection, all of which claims need.
const mostWriting = 16 << 20

var writing = semaphore.NewWeighted(mostWriting)

// Write stores a state as the newest, for the process that holds the lock of that id. It does so also when the context ends
// meanwhile: the state names what was made. The errors are ErrBadState, ErrNotLocked, ErrOvertaken, ErrOver and those of
// keys and database.
func (s *Service) Write(ctx context.Context, run Run, lockID string, state []byte) error {
	if len(state) > MaxBytes {
		return xerrors.Errorf("write state: %w", ErrBadState)
	}
	weight := int64(min(len(state), mostWriting))
	_ = writing.Acquire(context.WithoutCancel(ctx), weight) // no error without an end of the context; a write ends by itself
	defer writing.Release(weight)
	is, err := parse(state)
	if err != nil || is.Lineage == "" || is.Serial < 0 {
		return xerrors.Errorf("write state: %w", ErrBadState)
	}
	sealed, keyID, err := s.sealBoth(state, is.summary, run.WorkspaceID, is.Lineage, is.Serial)
	if err != nil {
		return err
	}
	sum := md5.Sum(state) //nolint:gosec // as said above
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return s.while(ctx, run, "write state", func(ctx context.Context, q *statesdb.Queries, held lock) error {
		if held.id == "" || held.id != lockID {
			return ErrNotLocked
		}
		n, err := q.InsertTerraformState(ctx, statesdb.InsertTerraformStateParams{
			WorkspaceID: run.WorkspaceID, Incarnation: run.incarnation, Lineage: is.Lineage, Serial: is.Serial,
			Sealed: sealed.state, Summary: sealed.summary, SealedBy: keyID, Size: int32(len(state)), Md5: sum[:],
		})
		if err != nil {
			return err
		}
		if n > 0 {
			return q.TerraformNamed(ctx, statesdb.TerraformNamedParams{WorkspaceID: run.WorkspaceID, Addresses: is.named})
		}
		same, err := q.HasTerraformState(ctx, statesdb.HasTerraformStateParams{
			WorkspaceID: run.WorkspaceID, Lineage: is.Lineage, Serial: is.Serial, Md5: sum[:],
		})
		if err == nil && !same {
			return ErrOvertaken
		}
		return err
	})
}

// Reseal seals states and modules with the first encryption key, whose id that is, and says how many were sealed with another. db is a
// transaction.
func (s *Service) Reseal(ctx context.Context, db database.DBTX, first string) (n int, err error) {
	q := statesdb.New(db)
	if n, err = s.resealModules(ctx, q, first); err != nil {
		return 0, err
	}
	old, err := q.TerraformStatesToReseal(ctx, first)
	if err != nil {
		return 0, xerrors.Errorf("list states: %w", err)
	}
	for _, version := range old {
		row, err := q.SealedTerraformState(ctx, statesdb.SealedTerraformStateParams(version))
		if database.NoRows(err) {
			continue
		}
		if err != nil {
			return 0, xerrors.Errorf("read state: %w", err)
		}
		state, err := s.open(row)
		if err != nil {
			return 0, err
		}
		is, err := parse(state)
		if err != nil {
			return 0, xerrors.Errorf("seal state of workspace %s again: %w", row.WorkspaceID, err)
		}
		sealed, keyID, err := s.sealBoth(state, is.summary, row.WorkspaceID, row.Lineage, row.Serial)
		if err != nil {
			return 0, err
		}
		err = q.ResealTerraformState(ctx, statesdb.ResealTerraformStateParams{
			WorkspaceID: row.WorkspaceID, Version: row.Version, Sealed: sealed.state, Summary: sealed.summary, SealedBy: keyID,
		})
		if err != nil {
			return 0, xerrors.Errorf("write state: %w", err)
		}
		n++
	}
	return n, nil
}

// both are a state and its summary, sealed.
type both struct{ state, summary []byte }

// sealBoth seals with one key, whose id it returns, also where the first key is replaced meanwhile.
func (s *Service) sealBoth(state, summary []byte, id uuid.UUID, lineage string, serial int64) (sealed both, keyID string, err error) {
	for again := true; ; again = false {
		var other string
		if sealed.state, keyID, err = s.Keys.Seal(state, about(id, lineage, serial)); err == nil {
			sealed.summary, other, err = s.Keys.Seal(summary, aboutSummary(id, lineage, serial))
		}
		if err != nil {
			return both{}, "", xerrors.Errorf("seal state: %w", err)
		}
		if other == keyID {
			return sealed, keyID, nil
		}
		if !again {
			return both{}, "", xerrors.New("seal state: the encryption keys keep changing")
		}
	}
}

func (s *Service) open(row database.TerraformState) ([]byte, error) {
	state, err := s.Keys.Open(row.Sealed, row.SealedBy, about(row.WorkspaceID, row.Lineage, row.Serial))
	if err != nil {
		return nil, xerrors.Errorf("open state of workspace %s: %w", row.WorkspaceID, err)
	}
	return state, nil
}

// about binds what is sealed to its workspace and version, so that no row can stand in for another.
func about(workspaceID uuid.UUID, lineage string, serial int64) string {
	return fmt.Sprintf("terraform state %s %d %s", workspaceID, serial, lineage)
}

func aboutSummary(workspaceID uuid.UUID, lineage string, serial int64) string {
	return "summary of " + about(workspaceID, lineage, serial)
}
