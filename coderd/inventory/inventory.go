package inventory

import (
	"cmp"
	"context"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

const (
	// every is how often a replica looks whether an inventory is due, and says that it is at work.
	every = 10 * time.Second
	// judgeEvery is how often a replica writes down how its calls of providers ended, and judges these providers by them.
	judgeEvery = 5 * time.Second
	// soon is when the next inventory is wanted where this one left something open.
	soon = 10 * time.Second
	// listDeadline is how long both sides may take to answer (S1).
	listDeadline = 30 * time.Second
	// leaseFor is how long after its last heartbeat the lease of an inventory ends: of a replica that died, another takes
	// the inventory over then. A fifth of it passes between heartbeats.
	leaseFor = 15 * time.Second
	// longest is how long an inventory may take in all.
	longest = 2 * time.Minute
	// defaultGrace is what a discrepancy must have lasted before anything is done about it.
	defaultGrace = 10 * time.Second
	// keepMissing is how long a workspace that was missing stays in quarantine.
	keepMissing = 10 * time.Minute
)

// Options of a Service. Zero durations take the defaults.
type Options struct {
	Store        *database.Store
	Writer       *workspaces.Writer
	Providers    *provider.Registry
	Clock        quartz.Clock
	Log          slog.Logger
	Registerer   prometheus.Registerer
	Replica      string
	Installation uuid.UUID
	Hints        *hints.Hints
	State        provider.BeginState // for an orphan, at a provider that takes states; nil: there are none
	Calls        *Calls              // of Providers, counted by whoever watches them; nil: nobody does
	Grace        time.Duration       // 10 s
	Every        time.Duration       // how often a replica looks whether an inventory is due: 10 s
	Soon         time.Duration       // when the next is wanted where one left something open: 10 s
}

// Service makes inventories on one replica.
type Service struct {
	Options
	metrics   *metrics
	held      *lease.Held[place] // inventories
	wake      hints.Bell         // an inventory is wanted now
	allowance allowance
	observed  sync.Map    // why the observation of a provider ended last, by its name
	marks     *hints.Todo // claimed workspaces that their provider is to show as such
}

// place is what one inventory is of: a provider, and its site where it has sites.
type place struct{ provider, site string }

// New returns a Service; nothing happens before Run.
func New(o Options) *Service {
	o.Log = o.Log.Named("inventory")
	if o.Calls == nil {
		o.Calls = &Calls{}
	}
	o.Grace, o.Every, o.Soon = cmp.Or(o.Grace, defaultGrace), cmp.Or(o.Every, every), cmp.Or(o.Soon, soon)
	return &Service{
		Options: o, metrics: newMetrics(o.Registerer), held: lease.NewHeld[place](o.Clock, leaseFor), wake: hints.NewBell(),
		marks: hints.NewTodo(),
	}
}

// Run makes inventories as they come due, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	var inventories, observations, drifts lease.Apart
	defer inventories.Wait()
	defer observations.Wait()
	defer drifts.Wait()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.held.Beat(ctx, s.Log, s.extend) })
	beside.Go(func() {
		lease.Loop{
			Clock: s.Clock, Log: s.Log, What: "judge providers by their calls", Tags: []string{"inventory", "calls"},
			Every: judgeEvery, Later: true,
		}.Run(ctx, s.judgeCalls)
	})
	beside.Go(func() {
		lease.Loop{
			Clock: s.Clock, Log: s.Log, What: "mark claimed workspaces", Tags: []string{"inventory", "mark"}, Every: s.Every,
			Wake: s.marks.Wake, Later: true,
		}.Run(ctx, s.markAll)
	})
	lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "say that this replica is at work", Tags: []string{"inventory", "look"}, Every: s.Every,
		Wake: s.wake,
	}.Run(ctx, func(ctx context.Context) error {
		worked := inventorydb.New(s.Store).WorkOn(ctx)
		if err := s.Retire(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn(ctx, "retire deleted providers", slog.Error(err))
		}
		for _, name := range s.Providers.Names() {
			observations.Go(name, func() { s.observe(ctx, name) })
			drifts.Go(name, func() {
				if err := s.lookForDrift(ctx, name); err != nil && ctx.Err() == nil {
					s.Log.Warn(ctx, "look for drift", slog.F("provider", name), slog.Error(err))
				}
			})
			inventories.Go(name, func() { // one provider that hangs does not hold up the others
				if err := s.ifDue(ctx, name); err != nil && ctx.Err() == nil {
					s.Log.Warn(ctx, "make an inventory", slog.F("provider", name), slog.Error(err))
				}
			})
		}
		return worked
	})
}

// extend extends the leases of inventories.
func (s *Service) extend(ctx context.Context, of []place, attempts []int32) (map[place]bool, error) {
	arg := inventorydb.ExtendInventoriesParams{LeaseS: leaseFor.Seconds()}
	for i, at := range of {
		arg.Providers, arg.Sites = append(arg.Providers, at.provider), append(arg.Sites, at.site)
		arg.Attempts = append(arg.Attempts, int64(attempts[i]))
	}
	rows, err := inventorydb.New(s.Store).ExtendInventories(ctx, arg)
	return lists.Keyed(rows, func(row inventorydb.ExtendInventoriesRow) (place, bool) {
		return place{row.Provider, row.Site}, row.Extended
	}), err
}

// ifDue makes the inventory of a provider if it is due, and another if one was asked for meanwhile.
func (s *Service) ifDue(ctx context.Context, name string) error {
	p, site, err := s.find(name)
	if err != nil {
		return err
	}
	due, err := inventorydb.New(s.Store).InventoryDue(ctx, inventorydb.InventoryDueParams{Provider: name, Site: site})
	if err != nil {
		return xerrors.Errorf("see whether an inventory is due: %w", err)
	}
	for due && err == nil {
		var made Result
		made, err = s.pass(ctx, name, p, site, false)
		due = made.asked
	}
	return err
}

// find is a provider with the site at which this replica reaches it; empty if that is everywhere.
func (s *Service) find(name string) (provider.Provider, string, error) {
	p, err := s.Providers.Get(name)
	if err != nil {
		return nil, "", err
	}
	p = provider.WithState(p, s.State)
	if sited, ok := provider.As[provider.Sited](p); ok {
		return p, sited.Site(), nil
	}
	return p, "", nil
}
