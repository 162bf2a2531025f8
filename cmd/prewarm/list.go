package main

import (
	"context"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// view is how a listing is asked for and shown.
type view[T any] struct {
	ask  asking[[]T]
	text func([]T) string
	none string // hint where there are none; empty: no hint

	watch *watchFlags    // nil: it cannot be watched, and needs none of the following
	name  func(T) string // says what is the same one as before
	line  func(T) string // begins with the name; without what changes by itself, such as ages
	still func(T) T      // the same for JSON, only to compare; nil: there is nothing
}

// list shows a listing once, or for as long as it is watched.
func list[T any](a *app, v view[T]) runE {
	return a.asks(func(ctx context.Context, c *sdk.Client, arg string) error {
		look := func(ctx context.Context) ([]T, error) { return v.ask(c, ctx, arg) }
		if v.watch != nil && v.watch.on {
			return watchView(ctx, a, v, look)
		}
		all, err := look(ctx)
		if err != nil {
			return err
		}
		if len(all) == 0 && v.none != "" {
			a.hint("%s", v.none)
		}
		return a.print(all, v.text(all))
	})
}

// readPages reads page after page, until there are limit; all where that is 0.
func readPages[T any](limit int, read func(limit int, after string) (page []T, next string, err error)) ([]T, error) {
	const largestPage = 500
	var all []T
	for after := ""; ; {
		size := largestPage
		if limit > 0 {
			size = min(limit-len(all), largestPage)
		}
		page, next, err := read(size, after)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" || limit > 0 && len(all) >= limit {
			return all, nil
		}
		after = next
	}
}

// checkLimit checks the flag --limit of a listing, 0 being all.
func checkLimit(limit int) error { return usageErrorIf(limit < 0, "--limit must not be negative") }
