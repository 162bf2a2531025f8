package auth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
)

const (
	// watchEvery is how long after its commit a revocation is seen at most, on each replica, but for the look itself.
	watchEvery = 500 * time.Millisecond
	// watchLimit bounds a look, so that one which hangs does not keep the next from finding out that the database is away.
	watchLimit = time.Second
	// unconfirmed is how long a request goes on while the database cannot say.
	unconfirmed = 10 * time.Second
)

// Why a request that goes on for long was ended. All of them are ErrNotAllowed.
var (
	ErrNotAllowed  = errors.New("not allowed any more")
	ErrRevoked     = ended("the token is not valid any more")
	ErrRole        = ended("the role of the token's user has changed: connect again")
	ErrUnconfirmed = ended("the database could not confirm for 10 s that the token is still valid: connect again")
)

type ended string

func (e ended) Error() string { return string(e) }

func (ended) Is(target error) bool { return target == ErrNotAllowed }

// Watch ends what goes on for long once its token, session or role is not what it was when it began. One statement looks for
// all of a replica, and none while nothing goes on. It is safe for concurrent use.
type Watch struct {
	store *database.Store
	clock quartz.Clock

	mu      sync.Mutex
	watched map[*watched]struct{}
	timer   *quartz.Timer // nil while nothing goes on
}

type watched struct {
	ctx       context.Context //nolint:containedctx // for the values that a question to the database takes along
	who       Identity
	cancel    context.CancelCauseFunc
	confirmed time.Time
}

// NewWatch makes one for a replica.
func NewWatch(store *database.Store, clock quartz.Clock) *Watch {
	return &Watch{store: store, clock: clock, watched: map[*watched]struct{}{}}
}

// While returns a context that ends, with the reason as its cause, once who may not go on. stop must be called.
func (w *Watch) While(ctx context.Context, who Identity) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	this := &watched{ctx: ctx, who: who, cancel: cancel, confirmed: w.clock.Now("auth", "watch")}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched[this] = struct{}{}
	if w.timer == nil {
		w.timer = w.clock.AfterFunc(watchEvery, w.look, "auth", "watch")
	}
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watched, this)
	}
}

func (w *Watch) look() {
	now := w.clock.Now("auth", "watch")
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.watched))
	if len(all) == 0 {
		w.timer = nil
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	w.check(all, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(watchEvery, "auth", "watch")
}

// check ends those that may not go on, as of a time before the question.
func (w *Watch) check(all []*watched, now time.Time) {
	roles, err := w.roles(all)
	for _, one := range all {
		role, valid := roles[credential{one.who.CredentialID, one.who.OrganizationID}]
		switch {
		case err != nil:
			if now.Sub(one.confirmed) >= unconfirmed {
				one.cancel(ErrUnconfirmed)
			}
		case role == one.who.Role:
			one.confirmed = now
		case valid || roles[credential{one.who.CredentialID, uuid.Nil}] != "": // a member no more, but of others
			one.cancel(ErrRole)
		default:
			one.cancel(ErrRevoked)
		}
	}
}

// credential is a token or session in one organization; in none: whether it is valid at all.
type credential struct{ id, organization uuid.UUID }

func (w *Watch) roles(all []*watched) (map[credential]database.Role, error) {
	ids := lists.Keyed(all, func(one *watched) (uuid.UUID, struct{}) { return one.who.CredentialID, struct{}{} })
	// Of one of them, and going on where that one ends meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(all[0].ctx), watchLimit)
	defer cancel()
	rows, err := authdb.New(w.store.Aside()).StillValid(ctx, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return nil, xerrors.Errorf("look whether tokens are still valid: %w", err)
	}
	roles := make(map[credential]database.Role, 2*len(rows))
	for _, row := range rows {
		roles[credential{row.ID, row.OrganizationID}] = row.Role
		roles[credential{row.ID, uuid.Nil}] = row.Role
	}
	return roles, nil
}
