package runners

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// heed records an error of the forge as a whole, and not of one runner. After a few with no answer as it should be between them all
// replicas leave the forge alone: for a moment first, and for twice as long after each that follows, up to Pace.Backoff
// (decision 47). What a forge says itself of when to come back holds at once. An error that comes of the caller's own end says
// nothing. It returns for how long this replica had better not list its runners.
func (s *Service) heed(ctx context.Context, entityID uuid.UUID, err error) (pause time.Duration) {
	if err == nil || ctx.Err() != nil || !ofItself(err) {
		return s.Pace.Backoff
	}
	pause, alone := s.troubles.pause(entityID, s.Clock.Now("runners", "heed"), s.Pace.Backoff)
	arg := runnersdb.LeaveForgeAloneParams{EntityID: entityID, BackoffS: pause.Seconds(), Error: brief(err.Error())}
	if limited, is := errors.AsType[*forge.RateLimited](err); is {
		arg.WaitUntil, alone = &limited.Until, true
	}
	if !alone {
		return pause
	}
	if err := runnersdb.New(s.Store).LeaveForgeAlone(ctx, arg); err != nil && ctx.Err() == nil {
		s.Log.Warn(ctx, "record backoff of forge", slog.F("entity_id", entityID), slog.Error(err))
	}
	return pause
}

const (
	// firstPause is of how many parts of Pace.Backoff the first pause is one: a second of a minute.
	firstPause = 60
	// sporadic is how many errors after one another may be those of a forge that is well.
	sporadic = 2
)

// troubles are the forges that answered this replica with errors, one after the other.
type troubles struct {
	mu sync.Mutex
	of map[uuid.UUID]trouble
}

// trouble is how many errors there were, how long the last pause was, and when it is over.
type trouble struct {
	errors int
	pause  time.Duration
	until  time.Time
}

// pause is for how long to keep off after one more error, and whether all are to. Errors of calls that were under way during a pause are
// of the same trouble.
func (t *troubles) pause(entityID uuid.UUID, now time.Time, most time.Duration) (pause time.Duration, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[uuid.UUID]trouble{}
	}
	is := t.of[entityID]
	is.errors++
	if alone = is.errors > sporadic; alone && !now.Before(is.until) {
		is.pause = min(max(2*is.pause, most/firstPause), most)
		is.until = now.Add(is.pause)
	}
	t.of[entityID] = is
	return max(is.pause, most/firstPause), alone
}

// well says that an entity's forge has answered as it should.
func (t *troubles) well(entityID uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, entityID)
}

// ofItself says whether an error is of the forge as a whole: it is not well, or wants to be left alone.
func ofItself(err error) bool {
	_, limited := errors.AsType[*forge.RateLimited](err)
	_, unwell := errors.AsType[*forge.Unwell](err)
	return limited || unwell
}
