package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// askFor is how long a provider whose calls failed may take to answer one that is made to see whether it is back.
const askFor = 4 * time.Second

// Calls counts how often this replica called each provider, and how often that failed in a way that is the provider's own:
// not a spec that it refuses, and not a call that we ended. The zero value is ready.
type Calls struct {
	mu sync.Mutex
	of map[string]Tally
}

// Add counts a call of the provider, by its provider.Result.
func (c *Calls) Add(name, result string) {
	if result == "cancelled" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]Tally{}
	}
	t := c.of[name]
	t.Calls++
	if result == "error" {
		t.Errors++
	}
	c.of[name] = t
}

// take returns what was counted since it was called last.
func (c *Calls) take() map[string]Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of
	c.of = nil
	return of
}

// spot is one provider, reached from one site.
type spot struct{ provider, site string }

// judgeCalls writes down how this replica's calls ended, and judges the providers that it called by the latest calls of all
// replicas. It first asks those whose breakers are open for failed calls, so that there are calls to judge by.
func (s *Service) judgeCalls(ctx context.Context) error {
	s.ask(ctx)
	spots, err := s.writeCalls(ctx)
	if err != nil {
		return err
	}
	for _, at := range spots {
		if err := s.judge(ctx, at); err != nil {
			return xerrors.Errorf("judge provider %s by its calls: %w", at.provider, err)
		}
	}
	return nil
}

// writeCalls adds what was counted to what the other replicas did, and returns whose calls they were. What cannot be
// written is lost: it is a rate.
func (s *Service) writeCalls(ctx context.Context) ([]spot, error) {
	of := s.Calls.take()
	var spots []spot
	var arg inventorydb.AddProviderCallsParams
	for _, name := range slices.Sorted(maps.Keys(of)) {
		_, site, err := s.find(name)
		if err != nil {
			continue // it was taken away meanwhile
		}
		spots = append(spots, spot{name, site})
		arg.Providers = append(arg.Providers, name)
		arg.Sites = append(arg.Sites, site)
		arg.Calls = append(arg.Calls, int32(of[name].Calls))
		arg.Errors = append(arg.Errors, int32(of[name].Errors))
	}
	if len(spots) == 0 {
		return nil, nil
	}
	if err := inventorydb.New(s.Store).AddProviderCalls(ctx, arg); err != nil {
		return nil, xerrors.Errorf("add provider calls: %w", err)
	}
	return spots, nil
}

// ask makes one call of each provider that this replica reaches and whose breaker calls have opened: creates are held back,
// and there may be nothing to delete. It reads only, and its end is counted as that of any other call.
func (s *Service) ask(ctx context.Context) {
	open, err := inventorydb.New(s.Store).BreakersByCalls(ctx)
	if err != nil {
		s.Log.Debug(ctx, "look for breakers that calls have opened", slog.Error(err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var asked sync.WaitGroup
	for _, at := range open {
		p, site, err := s.find(at.Provider)
		if err != nil || site != at.Site {
			continue
		}
		asked.Go(func() {
			var err error
			if at.ID != uuid.Nil {
				_, err = p.Get(ctx, provider.Ref{Name: at.Name, ProviderID: at.ProviderID, WorkspaceID: at.ID})
			} else {
				_, err = p.List(ctx, s.Installation)
			}
			s.Log.Debug(ctx, "asked a provider whose breaker is open", slog.F("provider", at.Provider), slog.Error(err))
		})
	}
	asked.Wait()
}

// judge opens or closes the breaker of a provider by the latest calls. Where nothing changes it only reads.
func (s *Service) judge(ctx context.Context, at spot) error {
	settings, err := inventorydb.New(s.Store).InventorySettings(ctx, at.provider)
	if database.NoRows(err) {
		return nil // it was taken away meanwhile
	}
	if err != nil {
		return xerrors.Errorf("read settings: %w", err)
	}
	look := func(ctx context.Context, q *inventorydb.Queries, was Breaker) (Breaker, error) {
		rows, err := q.LatestCalls(ctx, inventorydb.LatestCallsParams{Provider: at.provider, Site: at.site})
		if err != nil {
			return was, xerrors.Errorf("read calls: %w", err)
		}
		latest := lists.Of(rows, func(row inventorydb.LatestCallsRow) Tally { return Tally{int(row.Calls), int(row.Errors)} })
		return was.Judge(limitsOf(settings), latest), nil
	}
	var was, is Breaker
	row, err := inventorydb.New(s.Store).BreakerOf(ctx, inventorydb.BreakerOfParams{Provider: at.provider, Site: at.site})
	if database.NoRows(err) {
		return nil // there was no inventory yet
	}
	if err != nil {
		return xerrors.Errorf("read breaker: %w", err)
	}
	was = Breaker{Reason: row.Reason, Clean: int(row.Clean), Calls: row.ByCalls}
	if is, err = look(ctx, inventorydb.New(s.Store), was); err != nil || is == was {
		return err
	}
	err = s.Store.InTx(ctx, database.TxOptions{Label: "judge calls"}, func(ctx context.Context, tx pgx.Tx) error {
		q := inventorydb.New(tx)
		row, err := q.LockBreaker(ctx, inventorydb.LockBreakerParams{Provider: at.provider, Site: at.site})
		if err != nil {
			return xerrors.Errorf("lock breaker: %w", err)
		}
		was = Breaker{Reason: row.Reason, Clean: int(row.Clean), Calls: row.ByCalls}
		if is, err = look(ctx, q, was); err != nil || is == was {
			return err
		}
		err = q.StoreBreaker(ctx, inventorydb.StoreBreakerParams{
			Provider: at.provider, Site: at.site, IsOpen: is.Open(), Reason: is.Reason, ByCalls: is.Calls,
		})
		if err != nil {
			return xerrors.Errorf("store breaker: %w", err)
		}
		return s.recordBreaker(ctx, tx, at.provider, was, is)
	})
	if err != nil {
		return err
	}
	s.tellBreaker(ctx, at.provider, at.site, was, is)
	return nil
}
