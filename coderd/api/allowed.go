package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
)

const (
	// allowedEvery is how often a request without a deadline asks whether its token and role still are what they were. The
	// answer is the authenticator's, which looks once for all requests of a token, and is half a second old at most.
	allowedEvery = time.Second
	// unconfirmed is how long it goes on while the database cannot say.
	unconfirmed = 10 * time.Second
)

// Why a request without a deadline was ended. To a claim that waits each is claim.ErrNotAllowed.
var (
	errNotValid    = notAllowed("the token is not valid any more")
	errOtherRole   = notAllowed("the role of the token's user has changed: ask again")
	errUnconfirmed = notAllowed("the database could not confirm for 10 s that the token is still valid: ask again")
)

type notAllowed string

func (e notAllowed) Error() string { return string(e) }

func (notAllowed) Is(target error) bool { return target == claim.ErrNotAllowed }

// whileAllowed returns a context that ends, with the reason as its cause, once authenticate no longer says what it said when
// the request began. stop must be called.
func whileAllowed(
	ctx context.Context, clock quartz.Clock, who auth.Identity, authenticate func(context.Context) (auth.Principal, error),
) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var (
		mu        sync.Mutex
		timer     *quartz.Timer
		confirmed = clock.Now("api", "allowed")
	)
	check := func() {
		asking, done := context.WithTimeout(ctx, allowedEvery)
		principal, err := authenticate(asking)
		done()
		now := clock.Now("api", "allowed")
		switch {
		case errors.Is(err, auth.ErrUnauthenticated):
			cancel(errNotValid)
		case err == nil:
			if is, member := principal.In(who.Organization); !member || is.Role != who.Role {
				cancel(errOtherRole)
			}
			confirmed = now
		case now.Sub(confirmed) >= unconfirmed:
			cancel(errUnconfirmed)
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			timer.Reset(allowedEvery, "api", "allowed")
		}
	}
	mu.Lock()
	timer = clock.AfterFunc(allowedEvery, check, "api", "allowed")
	mu.Unlock()
	return ctx, func() {
		cancel(nil)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}
