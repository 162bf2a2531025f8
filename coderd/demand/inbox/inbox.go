package inbox

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
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

// ErrNoEntity: no entity has that name or id, or it is deleted.
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
	Hints      *hints.Hints
	// Jitter is from zero to below the given span; nil: by chance.
	Jitter func(time.Duration) time.Duration
}

// Service is the inbox of one replica.
type Service struct {
	Options
	metrics  *metrics
	wake     hints.Bell
	rematch  hints.Bell
	matching chan struct{} // has room for one match at a time
}

// New makes a service.
func New(o Options) *Service {
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	o.Log = o.Log.Named("inbox")
	return &Service{
		Options: o, metrics: newMetrics(o.Registerer), wake: hints.NewBell(), rematch: hints.NewBell(),
		matching: make(chan struct{}, 1),
	}
}

// Wake has the inbox looked into now.
func (s *Service) Wake() { s.wake.Ring() }

// MatchSoon has jobs matched anew: presets of runners, or entities, may be others than before.
func (s *Service) MatchSoon() { s.rematch.Ring() }

// Run handles what is in the inbox, and matches, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	handle := lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "handle deliveries", Tags: []string{"inbox", "poll"}, Wake: s.wake,
		Pause: func() time.Duration { return pollEvery/2 + s.Jitter(pollEvery) },
	}
	match := lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "match jobs", Tags: []string{"inbox", "match"}, Wake: s.rematch, Every: matchEvery,
		Later: true,
	}
	var both sync.WaitGroup
	both.Go(func() { handle.Run(ctx, s.Drain) })
	both.Go(func() { match.Run(ctx, s.Match) })
	both.Wait()
}
