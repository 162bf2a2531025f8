package runners

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
)

var (
	// ErrNoRunner: the workspace is of no runner preset.
	ErrNoRunner = errors.New("the workspace is no runner of a forge")
	// ErrHandedOut: the configuration was read before.
	ErrHandedOut = errors.New("a workspace's configuration is read once")
	// ErrNotNow: the workspace does not wait for its configuration just now; it may soon.
	ErrNotNow = errors.New("the configuration cannot be read now")
	// ErrBusy: the runner is known to have a job, and no word of a person's changes that (P7).
	ErrBusy = errors.New("the runner has a job")
)

// ForgeError is an error of a forge, or on the way to it.
type ForgeError struct{ Err error }

func (e *ForgeError) Error() string { return e.Err.Error() }

func (e *ForgeError) Unwrap() error { return e.Err }

func ofForge(what string, err error) error { return &ForgeError{xerrors.Errorf("%s: %w", what, err)} }

// Options of a Service. All are needed but those that say otherwise.
type Options struct {
	Store      *database.Store
	Writer     *workspaces.Writer
	Directory  forge.Clients
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	Replica    string
	Hints      *hints.Hints
	// Keys seal configurations that are read as files, until they are read; nil: none can be.
	Keys *seal.Keys
	// Round are called in each round of an entity, after its listing: what else is asked of its forge.
	Round []func(ctx context.Context, entityID uuid.UUID) error
	// Pace is how often forges are asked; zero fields take the defaults.
	Pace Pace
	// Jitter is from zero to below the given span; nil: by chance.
	Jitter func(time.Duration) time.Duration
}

// Pace is how often an entity's runners are listed.
type Pace struct {
	Idle    time.Duration // while nobody waits for anything: 1 min
	Awaited time.Duration // while somebody waits for a registration, or for the end of a job: 10 s
	Fresh   time.Duration // in the first minute after a configuration was handed out, for up to 100 runners: 2 s
	Backoff time.Duration // at most, after errors that follow one another (P8): 1 min
	Look    time.Duration // how often it is looked whether a round is due: 1 s
	Settle  time.Duration // how often rows are settled at the latest: 15 s
}

func (p Pace) orDefault() Pace {
	return Pace{
		Idle: cmp.Or(p.Idle, time.Minute), Awaited: cmp.Or(p.Awaited, 10*time.Second), Fresh: cmp.Or(p.Fresh, 2*time.Second),
		Backoff: cmp.Or(p.Backoff, time.Minute), Look: cmp.Or(p.Look, time.Second), Settle: cmp.Or(p.Settle, 15*time.Second),
	}
}

// Service does it for one replica. It is safe for concurrent use.
type Service struct {
	Options
	settle   hints.Bell
	troubles troubles
	seen     atomic.Bool // a runner was seen for the first time since the last Settle
	metrics  *metrics
}

// New returns a Service. Nothing is asked of forges by itself before Run.
func New(o Options) *Service {
	o.Log = o.Log.Named("runners")
	o.Pace = o.Pace.orDefault()
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	return &Service{Options: o, settle: hints.NewBell(), metrics: newMetrics(o.Registerer)}
}

// SettleSoon asks for a Settle: something about jobs or runners may have changed. It never blocks.
func (s *Service) SettleSoon() { s.settle.Ring() }

// soon and soonFor are how often, and how many times, rows are settled after a runner was seen first: it becomes ready then,
// and may have its job already.
const (
	soon    = 500 * time.Millisecond
	soonFor = 10
)

// Run asks forges in rounds and settles, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	rounds := lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "look for forges to ask", Tags: []string{"runners", "rounds"},
		Pause: func() time.Duration { return s.jittered(s.Pace.Look) },
	}
	left := 0
	settle := lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "settle runners", Tags: []string{"runners", "settle"}, Wake: s.settle,
		Pause: func() time.Duration {
			left--
			if s.seen.Swap(false) {
				left = soonFor
			}
			if left > 0 {
				return s.jittered(min(s.Pace.Settle, soon))
			}
			return s.jittered(s.Pace.Settle)
		},
	}
	var both sync.WaitGroup
	both.Go(func() { rounds.Run(ctx, s.Rounds) })
	both.Go(func() { settle.Run(ctx, s.Settle) })
	both.Wait()
}

// jittered is between nine and eleven tenths of it.
func (s *Service) jittered(d time.Duration) time.Duration { return d - d/10 + s.Jitter(d/5+1) }

// hasten brings forward what waits for these runners to be seen.
func (s *Service) hasten(ctx context.Context, seen []uuid.UUID) error {
	if len(seen) == 0 {
		return nil
	}
	s.seen.Store(true)
	n, err := runnersdb.New(s.Store).HastenProbes(ctx, seen)
	if n > 0 {
		s.Hints.Wake()
	}
	return err
}
