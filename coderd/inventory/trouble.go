package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/time/rate"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// atOnce is how many workspaces of a provider a replica replaces on a hint in each atOnceIn: more may be a mass, of which
	// inventories and their breaker are the judges.
	atOnce   = 10
	atOnceIn = time.Minute
	// lookFor bounds the look at one resource.
	lookFor = 10 * time.Second
)

// allowance is what a replica may still do on hints, by provider: replace workspaces, and as often have an inventory made.
type allowance struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

func (a *allowance) take(name string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]*rate.Limiter{}
	}
	if a.of[name] == nil {
		a.of[name] = rate.NewLimiter(rate.Every(atOnceIn/atOnce), atOnce)
	}
	return a.of[name].AllowN(now, 1)
}

// observe listens to a provider that reports trouble, until ctx ends or the provider fails: the next tick tries again.
func (s *Service) observe(ctx context.Context, name string) {
	p, site, err := s.find(name)
	if err != nil {
		return // an inventory says so
	}
	observer, reports := provider.As[provider.Observer](p)
	if !reports {
		return
	}
	err = observer.Observe(ctx, s.Installation, func(id uuid.UUID) {
		if err := s.trouble(ctx, name, site, p, id); err != nil && !errors.Is(err, workspaces.ErrLost) && ctx.Err() == nil {
			s.Log.Warn(ctx, "look at a workspace in trouble", slog.F("provider", name), slog.F("workspace_id", id), slog.Error(err))
		}
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	if said, again := s.observed.Swap(name, err.Error()); !again || said != err.Error() { // once for each cause
		s.Log.Warn(ctx, "observation ended", slog.F("provider", name), slog.Error(err))
	}
}

// trouble looks at one workspace that a provider has reported. An unclaimed one that is lost is replaced at once. A claimed one
// is left to an inventory, which is made now.
func (s *Service) trouble(ctx context.Context, name, site string, p provider.Provider, id uuid.UUID) error {
	w, err := viewsdb.New(s.Store).WorkspaceByID(ctx, id)
	switch {
	case database.NoRows(err):
		return nil // an orphan, for inventories
	case err != nil:
		return xerrors.Errorf("look at the workspace: %w", err)
	case w.Provider != name:
		return nil
	case w.State == database.WorkspaceStateClaimed:
		return s.lookNow(ctx, name)
	case w.State != database.WorkspaceStateReady && w.State != database.WorkspaceStateStandby:
		return nil // it goes, or its job sees to it
	}
	breaker, err := inventorydb.New(s.Store).BreakerOf(ctx, inventorydb.BreakerOfParams{Provider: name, Site: site})
	if err != nil && !database.NoRows(err) {
		return xerrors.Errorf("look at the breaker: %w", err)
	}
	if breaker.Reason != "" || !s.allowance.take(name, s.Clock.Now("inventory", "trouble")) {
		return s.lookNow(ctx, name)
	}
	seenAt, err := database.New(s.Store).GetNow(ctx)
	if err != nil {
		return xerrors.Errorf("read the time: %w", err)
	}
	looking, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	inst, err := p.Get(looking, provider.Ref{Name: w.Name, ProviderID: w.ProviderID, WorkspaceID: w.ID})
	var moved workspaces.Moved
	switch {
	case errors.Is(err, provider.ErrNotFound):
		moved, err = s.Writer.Missing(ctx, w.ID, w.Incarnation, seenAt, true,
			fmt.Sprintf("provider %s no longer has it", name), keepMissing)
	case err != nil:
		return xerrors.Errorf("look at the resource: %w", err)
	case inst.Status != provider.StatusError:
		return nil
	default:
		moved, err = s.Writer.Drain(ctx, s.Store, w.ID, w.Incarnation, "G4: "+brief("the provider reports an error: "+inst.Fault))
	}
	if err != nil {
		return err // ErrLost: somebody was faster, perhaps a claim
	}
	s.Log.Info(ctx, "replaced a workspace in trouble", slog.F("provider", name), slog.F("workspace", w.Name), slog.F("fault", inst.Fault))
	s.Hints.Nudge(moved.TemplateID)
	s.Hints.Wake()
	return nil
}

// lookNow has the next inventory of a provider made at once, unless that was done often enough: a large fleet's takes a while.
func (s *Service) lookNow(ctx context.Context, name string) error {
	if !s.allowance.take("inventory of "+name, s.Clock.Now("inventory", "trouble")) {
		return nil
	}
	if err := inventorydb.New(s.Store).LookSoon(ctx, name); err != nil {
		return xerrors.Errorf("have an inventory made: %w", err)
	}
	s.wake.Ring()
	return nil
}
