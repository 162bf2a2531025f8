package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// Calls counts how often this replica called each provider, and how often that failed in a way that is the provider's own:
// not a spec that it refuses, and not a call that we ended. The zero value is ready.
type Calls struct {
	mu sync.Mutex
	of map[string]tally
}

type tally struct{ calls, errors int32 }

// Add counts a call of the provider, by its provider.Result.
func (c *Calls) Add(name, result string) {
	if result == "cancelled" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]tally{}
	}
	t := c.of[name]
	t.calls++
	if result == "error" {
		t.errors++
	}
	c.of[name] = t
}

// take returns what was counted since it was called last.
func (c *Calls) take() map[string]tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of
	c.of = nil
	return of
}

// writeCalls adds what was counted to what the other replicas did, for whoever makes the next inventory. What cannot be
// written is lost: it is a rate.
func (s *Service) writeCalls(ctx context.Context) error {
	of := s.Calls.take()
	var arg inventorydb.AddProviderCallsParams
	for _, name := range slices.Sorted(maps.Keys(of)) {
		_, site, err := s.find(name)
		if err != nil {
			continue // it was taken away meanwhile
		}
		arg.Providers = append(arg.Providers, name)
		arg.Sites = append(arg.Sites, site)
		arg.Calls = append(arg.Calls, of[name].calls)
		arg.Errors = append(arg.Errors, of[name].errors)
	}
	if len(arg.Providers) == 0 {
		return nil
	}
	if err := inventorydb.New(s.Store).AddProviderCalls(ctx, arg); err != nil {
		return xerrors.Errorf("add provider calls: %w", err)
	}
	return nil
}
