package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

// calls counts how often this replica called each provider, and how often that failed in a way that is the provider's own:
// not a spec that it refuses, and not a call that we ended.
type calls struct {
	mu sync.Mutex
	of map[string]tally
}

type tally struct{ calls, errors int32 }

// Watch counts calls; it is for provider.Registry.OnCall.
func (s *Service) Watch(ctx context.Context, name, _ string) (context.Context, func(error)) {
	return ctx, func(err error) {
		result := provider.Result(ctx, err)
		if result == "cancelled" {
			return
		}
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		if s.calls.of == nil {
			s.calls.of = map[string]tally{}
		}
		t := s.calls.of[name]
		t.calls++
		if result == "error" {
			t.errors++
		}
		s.calls.of[name] = t
	}
}

// writeCalls adds what was counted to what the other replicas did, for whoever makes the next inventory. What cannot be
// written is lost: it is a rate.
func (s *Service) writeCalls(ctx context.Context) error {
	s.calls.mu.Lock()
	of := s.calls.of
	s.calls.of = nil
	s.calls.mu.Unlock()
	var arg database.AddProviderCallsParams
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
	if err := s.Store.AddProviderCalls(ctx, arg); err != nil {
		return xerrors.Errorf("add provider calls: %w", err)
	}
	return nil
}
