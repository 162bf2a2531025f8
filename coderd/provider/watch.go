package provider

import (
	"context"
	"errors"
)

// Watch is told of each call of a provider, by the provider's configured name and the call's (create, delete, get, list,
// ready, stop, start). The context that it returns is the call's; the func that it returns is told how the call ended.
type Watch func(ctx context.Context, provider, call string) (context.Context, func(error))

// Result says in one word how a call ended, for metrics and traces: ok, not-found, permanent, cancelled or error.
func Result(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrNotFound):
		return "not-found"
	case ctx.Err() != nil:
		return "cancelled" // a lease that ended, a stop, or a time-out of ours
	case IsPermanent(err):
		return "permanent"
	}
	return "error"
}
