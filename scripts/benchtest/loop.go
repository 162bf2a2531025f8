package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// errMiss: there was nothing to claim.
var errMiss = errors.New("a claim was a miss")

// loop has workers do one thing after the other for a window: each again as soon as it has done it, or, at a rate above zero,
// what falls due at random instants whether that before is done or not; latency counts from when it was due then, as with
// pgbench -R. A miss ends a window, and is a failure where it leaves something undone that was due.
func (b *bench) loop(workers []func(), rate float64, window time.Duration) sample {
	before, began := b.processor(), time.Now()
	next := func() (time.Time, bool) { now := time.Now(); return now, now.Before(began.Add(window)) }
	if rate > 0 {
		due := arrivals(began, window, rate)
		next = func() (time.Time, bool) { at, more := <-due; return at, more }
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var over atomic.Bool
	for _, work := range workers {
		wg.Go(func() {
			mine := make([]time.Duration, 0, 10_000)
			err := attempt(func() {
				for at, more := next(); more && !over.Load(); at, more = next() {
					work()
					mine = append(mine, time.Since(at))
				}
			})
			if err != nil {
				over.Store(true)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if err != nil && (rate > 0 || !errors.Is(err, errMiss)) {
				failed = err
			}
		})
	}
	wg.Wait()
	lasted, spent := time.Since(began), b.processor().since(before)
	must(failed)
	if len(took) == 0 {
		fail("every claim was a miss")
	}
	n := time.Duration(len(took))
	return sample{
		n: len(took), perSecond: float64(n) / lasted.Seconds(), processor: (spent.here + spent.server) / n, ours: spent.here / n,
		p50: quantile(took, 0.5), p99: quantile(took, 0.99), lasted: lasted,
	}
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
