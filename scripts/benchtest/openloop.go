package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
)

// keepsUp is the part of a rate that must be reached for latency at that rate to mean anything: who falls behind has a
// queue that grows for as long as the window lasts, and its latency tells of the window's length.
const keepsUp = 0.95

// openLoop measures latency at half the peak rate, as pgbench -R does: claims are due at random instants whether those
// before are answered or not, and latency counts from when one was due. The yardstick may be far from keeping up with that
// rate, so it is measured again at one that both keep up with.
func openLoop(ctx context.Context, b *bench) error {
	const clients = 32
	y, dropYard, err := b.yardstick(ctx)
	if err != nil {
		return err
	}
	defer dropYard()
	f, err := b.fleet(ctx, 1, 0)
	if err != nil {
		return err
	}
	d, err := f.open()
	if err != nil {
		return err
	}
	defer d.close()
	steady, err := y.steady(ctx, b, clients)
	if err != nil {
		return err
	}
	var without error
	if steady == 0 {
		without = fmt.Errorf("%s keeps up with no rate that has a p99: that yardstick is missing", y.name())
	}
	for _, side := range []struct {
		name    string
		connect func(int) (claimer, func(), error)
	}{{"store", d.store}, {"http", d.overHTTP}} {
		if err := d.stock(ctx, int(15_000*(warmUp+b.window()).Seconds())); err != nil {
			return err
		}
		if err := d.settle(ctx); err != nil {
			return err
		}
		peak, err := d.measure(ctx, b, side.connect, clients)
		if err != nil {
			return err
		}
		for _, rate := range []float64{math.Round(peak.perSecond / 2), steady} {
			if rate == 0 {
				continue
			}
			var ours, yard []sample
			for range b.rounds {
				s, err := d.measureOpen(ctx, b, side.connect, clients, rate)
				if err != nil {
					return err
				}
				ours = append(ours, s)
				if s, err = y.measure(ctx, b, clients, rate); err != nil {
					return err
				}
				yard = append(yard, s)
			}
			printOpen(fmt.Sprintf("latency.%s.at-%.0f-per-s", side.name, rate), rate, ours, yard, y.name()+" -R")
		}
	}
	return without
}

// steady is a rate that the yardstick keeps up with: half of what it reaches when nothing holds it back, or less. It is 0
// where that would be fewer than 100 in a window, of which there is no p99.
func (y *yardstick) steady(ctx context.Context, b *bench, clients int) (float64, error) {
	peak, err := y.measure(ctx, b, clients, 0)
	if err != nil {
		return 0, err
	}
	for rate := math.Round(peak.perSecond / 2); rate*b.window().Seconds() >= 100; rate = math.Round(0.7 * rate) {
		s, err := y.measure(ctx, b, clients, rate)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "# %s: %.0f/s at most, %.0f of %.0f/s with -R\n", y.name(), peak.perSecond, s.perSecond, rate)
		if s.perSecond >= keepsUp*rate {
			return rate, nil
		}
	}
	return 0, nil
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

// measureOpen has a window begin at the moment at which those of the closed loop do.
func (d *desk) measureOpen(
	ctx context.Context, b *bench, connect func(int) (claimer, func(), error), clients int, rate float64,
) (sample, error) {
	if err := d.stock(ctx, int(1.2*rate*(warmUp+b.window()).Seconds())+1000); err != nil {
		return sample{}, err
	}
	if err := b.checkpoint(ctx); err != nil {
		return sample{}, err
	}
	if _, err := d.runOpen(ctx, b, connect, clients, rate, warmUp); err != nil {
		return sample{}, fmt.Errorf("warm up: %w", err)
	}
	return d.runOpen(ctx, b, connect, clients, rate, b.window())
}

func (d *desk) runOpen(
	ctx context.Context, b *bench, connect func(int) (claimer, func(), error), clients int, rate float64, window time.Duration,
) (sample, error) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		ids    []uuid.UUID
		failed error
	)
	claimers := make([]claimer, clients)
	for i := range claimers {
		c, leave, err := connect(i)
		if err != nil {
			return sample{}, err
		}
		defer leave()
		claimers[i] = c
	}
	before, began := b.processor(), time.Now()
	due := arrivals(began, window, rate)
	for _, claim := range claimers {
		wg.Go(func() {
			for at := range due {
				id, err := claim(ctx, d.pools[0])
				mu.Lock()
				if err == nil && id == uuid.Nil {
					err = fmt.Errorf("a claim was a miss")
				}
				if err != nil {
					failed = err
				}
				took, ids = append(took, time.Since(at)), append(ids, id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	lasted, spent := time.Since(began), b.processor().since(before)
	if failed != nil {
		return sample{}, failed
	}
	if err := d.distinct(ids); err != nil {
		return sample{}, err
	}
	n := time.Duration(len(ids))
	return sample{
		perSecond: float64(n) / lasted.Seconds(), processor: (spent.here + spent.server) / n, ours: spent.here / n,
		p50: quantile(took, 0.5), p99: quantile(took, 0.99),
	}, nil
}

// arrivals are the instants at which something is due, at random and so many a second; each is sent when it has come.
func arrivals(began time.Time, window time.Duration, rate float64) <-chan time.Time {
	due := make(chan time.Time, int(2*rate*window.Seconds())+100) // none is ever put off by those before
	go func() {
		defer close(due)
		for next := began; next.Before(began.Add(window)); {
			time.Sleep(time.Until(next))
			due <- next
			next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		}
	}()
	return due
}
