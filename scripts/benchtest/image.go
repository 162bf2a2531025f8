package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
)

// image is a fleet that measurements begin from again and again, each on a copy of its own: none finds what those before
// it have left behind, and what is compared differs in nothing else.
type image struct {
	*fleet
	bench *bench
}

// image closes the fleet, vacuumed and analysed, and keeps its database.
func (b *bench) image(ctx context.Context, f *fleet) *image {
	f.settle(ctx)
	f.store.Close()
	return &image{f, b}
}

// open makes a desk on a copy.
func (i *image) open(ctx context.Context) *desk {
	address, drop := i.bench.database(ctx, i.url)
	store := get(database.Open(ctx, address, database.Options{Replica: "bench"}))
	f := *i.fleet
	f.store, f.url, f.drop, f.seen = store, address, func() { store.Close(); drop() }, map[uuid.UUID]bool{}
	return f.open()
}
