package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// mixed measures claims on a running server with everything on: each client claims over HTTP and releases what it got, so
// that passes, creates, probes and deletes run as fast as claims do.
func mixed(ctx context.Context, b *bench) {
	const pools, each, clients = 20, 50, 8
	f, r, end := b.running(ctx, pools, each, "mixed")
	defer end()
	counts := func() (passes, created, deleted int) {
		must(f.store.Pool.QueryRow(ctx, `SELECT (SELECT seq FROM reconcile_fence), count(*), count(*) FILTER (WHERE state = 'deleted')
			FROM workspaces`).Scan(&passes, &created, &deleted))
		return passes, created, deleted
	}
	passes, created, deleted := counts()
	var (
		eg     errgroup.Group
		mu     sync.Mutex
		took   []time.Duration
		ids    []uuid.UUID
		misses atomic.Int64
	)
	began := time.Now()
	over := began.Add(4 * b.window())
	for i := range clients {
		conn := dialHTTP(r.host(), f.token.Reveal())
		defer conn.close()
		eg.Go(func() error {
			return attempt(func() {
				for n := i; time.Now().Before(over); n += clients {
					start := time.Now()
					id := conn.claim(ctx, f.pools[n%pools])
					lasted := time.Since(start)
					if id == uuid.Nil {
						misses.Add(1)
						time.Sleep(5 * time.Millisecond) // who is told that there is none does something else first
						continue
					}
					mu.Lock()
					took, ids = append(took, lasted), append(ids, id)
					mu.Unlock()
					get(r.client.ReleaseWorkspace(ctx, id.String()))
				}
			})
		})
	}
	must(eg.Wait())
	lasted := time.Since(began).Seconds()
	f.distinct(ids)
	passesAfter, createdAfter, deletedAfter := counts()
	hits := float64(len(took))
	line("mixed.hits", hits/lasted, "/s", 0, "")
	line("mixed.hit-rate", 100*hits/(hits+float64(misses.Load())), "percent", 0, "")
	quantiles("mixed", took)
	line("mixed.passes", float64(passesAfter-passes)/lasted, "/s", 0, "")
	line("mixed.creates", float64(createdAfter-created)/lasted, "/s", 0, "")
	line("mixed.deletes", float64(deletedAfter-deleted)/lasted, "/s", 0, "")
}
