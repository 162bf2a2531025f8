package main

import (
	"context"
	"fmt"
	"os"
)

// tune is one figure without a yardstick.
func tune(ctx context.Context, b *bench) error {
	f, err := b.fleet(ctx, 1, 0)
	if err != nil {
		return err
	}
	d, err := f.open()
	if err != nil {
		return err
	}
	defer d.close()
	if err := f.addClaimed(ctx, 50_000); err != nil {
		return err
	}
	var samples []sample
	for range b.rounds {
		if err := d.stock(ctx, int(12_000*(warmUp+b.window()).Seconds())); err != nil {
			return err
		}
		if err := d.settle(ctx); err != nil {
			return err
		}
		s, err := d.measure(ctx, b, d.store, 32)
		if err != nil {
			return err
		}
		samples = append(samples, s)
		fmt.Fprintf(os.Stderr, "# %.0f/s, %s of processor per claim, %s of it here\n", s.perSecond, s.processor, s.ours)
	}
	line("tune.store.32", middle(samples, perSecond), "/s", 0, "")
	line("tune.store.32.processor", middle(samples, micros), "us", 0, "")
	return nil
}
