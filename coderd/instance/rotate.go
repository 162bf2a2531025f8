package instance

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

// Rotate makes a new signing key in the transaction of q, and with retireNow ends all others at once; otherwise those
// that no agent uses any more end by themselves. Forget must follow the commit.
func (s *Service) Rotate(ctx context.Context, db database.DBTX, retireNow bool) (made uuid.UUID, retired []uuid.UUID, err error) {
	q := instancedb.New(db)
	made = uuid.New()
	row, err := s.keys.row(made, newSecret())
	if err != nil {
		return made, nil, err
	}
	if err := q.InsertSigningKey(ctx, row); err != nil {
		return made, nil, xerrors.Errorf("insert signing key: %w", err)
	}
	if retireNow {
		if retired, err = q.RetireSigningKeys(ctx, true); err != nil {
			return made, nil, xerrors.Errorf("retire signing keys: %w", err)
		}
	}
	return made, retired, nil
}

// Forget makes this replica read the keys anew; the others do within a second.
func (s *Service) Forget() { s.keys.forget() }

// retire ends the keys that nobody uses.
func (s *Service) retire(ctx context.Context) error {
	_, err := instancedb.New(s.Store).RetireSigningKeys(ctx, false)
	return err
}
