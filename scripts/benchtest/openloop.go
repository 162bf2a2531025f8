package main

import (
	"context"
	"fmt"
	"math"
	"os"
)

// keepsUp is the part of a rate that must be reached for latency at that rate to mean anything: who falls behind has a
// queue that grows for as long as the window lasts, and its latency tells of the window's length.
const keepsUp = 0.95

// openLoop measures latency at half the peak rate, as pgbench -R does: claims are due at random instants whether those
// before are answered or not, and latency counts from when one was due. The yardstick may be far from keeping up with that
// rate, so it is measured again at one that both keep up with.
func openLoop(ctx context.Context, b *bench) {
	const clients = 32
	y, dropYard := b.yardstick(ctx)
	defer dropYard()
	d := b.fleet(ctx, 1, 0).open()
	defer d.close()
	steady := y.steady(ctx, b, clients)
	for _, side := range sides {
		d.stock(ctx, int(15_000*(warmUp+b.window()).Seconds()))
		d.settle(ctx)
		peak := d.measure(ctx, b, side, clients, 0)
		for _, rate := range []float64{math.Round(peak.perSecond / 2), steady} {
			if rate == 0 {
				continue
			}
			var ours, yard []sample
			for range b.rounds {
				d.stock(ctx, int(1.2*rate*(warmUp+b.window()).Seconds())+1000)
				ours = append(ours, d.measure(ctx, b, side, clients, rate))
				yard = append(yard, y.measure(ctx, b, clients, rate))
			}
			printOpen(fmt.Sprintf("latency.%s.at-%.0f-per-s", side, rate), rate, ours, yard, y.name()+" -R")
		}
	}
	if steady == 0 {
		fail("%s keeps up with no rate that has a p99: that yardstick is missing", y.name())
	}
}

// steady is a rate that the yardstick keeps up with: half of what it reaches when nothing holds it back, or less. It is 0
// where that would be fewer than 100 in a window, of which there is no p99.
func (y *yardstick) steady(ctx context.Context, b *bench, clients int) float64 {
	peak := y.measure(ctx, b, clients, 0)
	for rate := math.Round(peak.perSecond / 2); rate*b.window().Seconds() >= 100; rate = math.Round(0.7 * rate) {
		s := y.measure(ctx, b, clients, rate)
		fmt.Fprintf(os.Stderr, "# %s: %.0f/s at most, %.0f of %.0f/s with -R\n", y.name(), peak.perSecond, s.perSecond, rate)
		if s.perSecond >= keepsUp*rate {
			return rate
		}
	}
	return 0
}

func printOpen(name string, rate float64, ours, yard []sample, yardstick string) {
	line(name+".reached", middle(ours, perSecond), "/s", rate, "asked-for")
	was50, was99 := middle(yard, p50), middle(yard, p99)
	if reached := middle(yard, perSecond); reached < keepsUp*rate {
		fmt.Fprintf(os.Stderr, "# %s: %s reached %.0f of %.0f/s\n", name, yardstick, reached, rate)
		was50, was99, yardstick = 0, 0, yardstick+": not reached"
	}
	line(name+".p50", middle(ours, p50), "ms", was50, yardstick)
	line(name+".p99", middle(ours, p99), "ms", was99, yardstick)
}
