package main

import (
	"context"
	"fmt"
	"os"
)

// tune is one figure without a yardstick.
func tune(ctx context.Context, b *bench) {
	d := b.fleet(ctx, 1, 0).open()
	defer d.close()
	d.addClaimed(ctx, 50_000)
	var samples []sample
	for range b.rounds {
		d.stock(ctx, int(12_000*(warmUp+b.window()).Seconds()))
		d.settle(ctx)
		s := d.measure(ctx, b, store, 32, 0)
		samples = append(samples, s)
		fmt.Fprintf(os.Stderr, "# %.0f/s, %s of processor per claim, %s of it here\n", s.perSecond, s.processor, s.ours)
	}
	line("tune.store.32", middle(samples, perSecond), "/s", 0, "")
	line("tune.store.32.processor", middle(samples, micros), "us", 0, "")
}
