package inbox

import (
	"context"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	pollEvery  = 2 * time.Second  // for deliveries whose lease is over, or that another replica took and could not handle
	matchEvery = 15 * time.Second // also when nothing is known to have changed
)

// ErrSealed: this replica cannot open the entity's webhook secret, so that nothing can be said of a signature.
var ErrSealed = xerrors.New("the webhook secret cannot be opened")

// What package forge calls so.
type (
	Entity    = forge.Entity
	Directory = forge.Directory
)

var ErrNoEntity = forge.ErrNoEntity

// Options of a Service. All are needed but those that say otherwise.
type Options struct {
	Store      *database.Store
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	Replica    string
	NewID      func() uuid.UUID
	Directory  Directory
	// Nudge asks for a pass over templates whose demand has changed, Settle for claims and releases by jobs. After a commit.
	Nudge  func(templates ...uuid.UUID)
	Settle func()
	// Hint tells the other replicas that there is more in the inbox than this one takes at a time (see Wake). May be nil.
	Hint func()
	// Jitter is from zero to below the given span; nil: by chance.
	Jitter func(time.Duration) time.Duration
}

// Service is the inbox of one replica.
type Service struct {
	Options
	metrics  *metrics
	wake     chan struct{}
	rematch  chan struct{}
	matching chan struct{} // has room for one match at a time
}

// New makes a service.
func New(o Options) *Service {
	if o.Hint == nil {
		o.Hint = func() {}
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	o.Log = o.Log.Named("inbox")
	return &Service{
		Options: o, metrics: newMetrics(o.Registerer), wake: make(chan struct{}, 1), rematch: make(chan struct{}, 1),
		matching: make(chan struct{}, 1),
	}
}

// Wake has the inbox looked into now.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// MatchSoon has jobs matched anew: presets of runners, or entities, may be others than before.
func (s *Service) MatchSoon() {
	select {
	case s.rematch <- struct{}{}:
	default:
	}
}

// Run handles what is in the inbox, and matches, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	match := s.Clock.NewTicker(matchEvery, "inbox", "match")
	defer match.Stop()
	for due := false; ; due = taken(match.C) || due {
		taken(s.wake) // by what follows
		if err := s.Drain(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn(ctx, "handle deliveries", slog.Error(err))
		}
		if taken(s.rematch) || due {
			if err := s.Match(ctx); err != nil && ctx.Err() == nil {
				s.Log.Warn(ctx, "match jobs", slog.Error(err))
			}
		}
		due = false
		poll := s.Clock.NewTimer(pollEvery/2+s.Jitter(pollEvery), "inbox", "poll")
		select {
		case <-ctx.Done():
			poll.Stop()
			return
		case <-s.wake:
		case <-poll.C:
		case <-match.C:
			due = true
		case <-s.rematch:
			due = true
		}
		poll.Stop()
	}
}

// taken says whether there was something in a channel, which it takes. What comes of several that are ready then does not
// depend on which of them was seen first.
func taken[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
