package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// openLoop measures latency at half the peak rate, as pgbench -R does: claims are due at random instants whether those
// before are answered or not, and latency counts from when one was due.
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
		rate := peak.perSecond / 2
		var ours, yard []sample
		for range b.rounds {
			if err := d.stock(ctx, int(1.2*rate*b.window().Seconds())); err != nil {
				return err
			}
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
		name := fmt.Sprintf("latency.%s.at-%.0f-per-s", side.name, rate)
		line(name+".reached", middle(ours, perSecond), "/s", middle(yard, perSecond), y.name()+" -R")
		line(name+".p50", middle(ours, p50), "ms", middle(yard, p50), y.name()+" -R")
		line(name+".p99", middle(ours, p99), "ms", middle(yard, p99), y.name()+" -R")
	}
	return nil
}

func (d *desk) measureOpen(
	ctx context.Context, b *bench, connect func(int) (claimer, func(), error), clients int, rate float64,
) (sample, error) {
	if err := b.checkpoint(ctx); err != nil {
		return sample{}, err
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		ids    []uuid.UUID
		failed error
	)
	due := make(chan time.Time, int(2*rate*b.window().Seconds())+1) // none is ever put off by those before
	before, began := b.processor(), time.Now()
	for i := range clients {
		claim, leave, err := connect(i)
		if err != nil {
			return sample{}, err
		}
		defer leave()
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
	for next := began; next.Before(began.Add(b.window())); {
		if wait := time.Until(next); wait > 0 {
			time.Sleep(wait)
		}
		due <- next
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
	}
	close(due)
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
