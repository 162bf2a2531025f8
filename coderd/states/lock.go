package states

import (
	"context"
	"encoding/json"
	"errors"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// maxLockID is how long the id of a lock may be, in characters. Terraform's have 36.
const maxLockID = 200

// ErrBadLock: what should describe a lock does not.
var ErrBadLock = errors.New("a lock is described by a JSON object with an ID of 1 to 200 characters")

// LockedError: another process of the run holds the lock.
type LockedError struct{ Info json.RawMessage } // that process's

func (*LockedError) Error() string { return "the state is locked by another process" }

// Lock locks the state for who is described by info, as Terraform sends it. Locking again with the same id succeeds. The
// errors are ErrBadLock, *LockedError, ErrOver and those of the database.
func (s *Service) Lock(ctx context.Context, run Run, info json.RawMessage) error {
	id, err := lockID(info)
	if err != nil {
		return err
	}
	return s.while(ctx, run, "lock state", func(ctx context.Context, q *statesdb.Queries, held lock) error {
		if held.id != "" && held.id != id {
			return &LockedError{held.info}
		}
		return q.LockTerraformState(ctx, statesdb.LockTerraformStateParams{
			WorkspaceID: run.WorkspaceID, LockID: id, LockInfo: info,
		})
	})
}

// Unlock ends the lock that info describes; one that has ended already is no error. Errors are those of Lock.
func (s *Service) Unlock(ctx context.Context, run Run, info json.RawMessage) error {
	id, err := lockID(info)
	if err != nil {
		return err
	}
	return s.while(ctx, run, "unlock state", func(ctx context.Context, q *statesdb.Queries, held lock) error {
		if held.id != "" && held.id != id {
			return &LockedError{held.info}
		}
		return q.UnlockTerraformState(ctx, run.WorkspaceID)
	})
}

func lockID(info json.RawMessage) (string, error) {
	var described struct{ ID string }
	if json.Unmarshal(info, &described) != nil || described.ID == "" || len(described.ID) > maxLockID {
		return "", xerrors.Errorf("read lock: %w", ErrBadLock)
	}
	return described.ID, nil
}
