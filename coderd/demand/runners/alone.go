package runners

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

// LeftAlone: no replica registers or unregisters a runner at an entity's forge before an instant, since it is not well or was
// asked too much (P8). The forge was not asked.
type LeftAlone struct {
	Until time.Time
	Cause string // the error of the forge
}

func (e *LeftAlone) Error() string {
	return fmt.Sprintf("the forge is left alone until %s, after an error: %s", e.Until.UTC().Format(time.RFC3339), e.Cause)
}

// leftAlone is why the forge of an entity is not to be asked for runners now; nil where it may be.
func (s *Service) leftAlone(ctx context.Context, entityID uuid.UUID) (*LeftAlone, error) {
	row, err := runnersdb.New(s.Store).ForgeLeftAlone(ctx, entityID)
	switch {
	case database.NoRows(err):
		return nil, nil //nolint:nilnil // it may be asked
	case err != nil:
		return nil, xerrors.Errorf("read backoff of forge: %w", err)
	}
	return &LeftAlone{Until: *row.RunnersWaitUntil, Cause: row.RunnersError}, nil
}

// heed records an error of the forge as a whole, and not of one runner, so that all replicas leave the forge alone. An error
// that comes of the caller's own end says nothing.
func (s *Service) heed(ctx context.Context, entityID uuid.UUID, err error) {
	if err == nil || ctx.Err() != nil || !ofItself(err) {
		return
	}
	arg := runnersdb.LeaveForgeAloneParams{EntityID: entityID, BackoffS: s.Pace.Backoff.Seconds(), Error: brief(err.Error())}
	if limited, is := errors.AsType[*forge.RateLimited](err); is {
		arg.WaitUntil = &limited.Until
	}
	if err := runnersdb.New(s.Store).LeaveForgeAlone(ctx, arg); err != nil && ctx.Err() == nil {
		s.Log.Warn(ctx, "record backoff of forge", slog.F("entity_id", entityID), slog.Error(err))
	}
}

// ofItself says whether an error is of the forge as a whole: it is not well, or wants to be left alone.
func ofItself(err error) bool {
	_, limited := errors.AsType[*forge.RateLimited](err)
	_, unwell := errors.AsType[*forge.Unwell](err)
	return limited || unwell
}
