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
func (b *bench) image(ctx context.Context, f *fleet) (*image, error) {
	if err := f.settle(ctx); err != nil {
		return nil, err
	}
	f.store.Close()
	return &image{f, b}, nil
}

// copy makes a fleet of it.
func (i *image) copy(ctx context.Context) (*fleet, error) {
	address, drop, err := i.bench.database(ctx, i.url)
	if err != nil {
		return nil, err
	}
	store, err := database.Open(ctx, address, database.Options{Replica: "bench"})
	if err != nil {
		return nil, err
	}
	f := *i.fleet
	f.store, f.url, f.drop, f.seen = store, address, func() { store.Close(); drop() }, map[uuid.UUID]bool{}
	return &f, nil
}

// open makes a desk on a copy.
func (i *image) open(ctx context.Context) (*desk, error) {
	f, err := i.copy(ctx)
	if err != nil {
		return nil, err
	}
	return f.open()
}
