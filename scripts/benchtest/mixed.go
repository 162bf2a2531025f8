package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// mixed measures claims on a running server with everything on: each client claims over HTTP and releases what it got, so
// that passes, creates, probes and deletes run as fast as claims do.
func mixed(ctx context.Context, b *bench) error {
	const pools, each, clients = 20, 50, 8
	f, err := b.fleet(ctx, pools, each)
	if err != nil {
		return err
	}
	defer f.drop()
	r, err := b.serve(ctx, f, "mixed", 15*time.Second)
	if err != nil {
		return err
	}
	defer r.stop()
	if err := f.full(ctx, pools*each); err != nil {
		return err
	}
	counts := func() (passes, created, deleted int, err error) {
		err = f.store.Pool.QueryRow(ctx, `SELECT (SELECT seq FROM reconcile_fence), count(*), count(*) FILTER (WHERE state = 'deleted')
			FROM workspaces`).Scan(&passes, &created, &deleted)
		return passes, created, deleted, err
	}
	passes, created, deleted, err := counts()
	if err != nil {
		return err
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		misses int
		failed error
	)
	began := time.Now()
	end := began.Add(4 * b.window())
	for i := range clients {
		conn, err := dialHTTP(r.host(), f.token.Reveal())
		if err != nil {
			return err
		}
		defer conn.close()
		wg.Go(func() {
			for n := i; time.Now().Before(end); n += clients {
				start := time.Now()
				id, err := conn.claim(ctx, f.pools[n%pools])
				lasted := time.Since(start)
				mu.Lock()
				switch {
				case err != nil:
					failed = err
				case id == uuid.Nil:
					misses++
				case f.seen[id]:
					failed = fmt.Errorf("workspace %s was claimed twice", id)
				default:
					f.seen[id] = true
					took = append(took, lasted)
				}
				mu.Unlock()
				if err != nil {
					return
				}
				if id != uuid.Nil {
					_, err = r.client.ReleaseWorkspace(ctx, id.String())
				} else {
					time.Sleep(5 * time.Millisecond) // who is told that there is none does something else first
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	lasted := time.Since(began).Seconds()
	if failed != nil {
		return failed
	}
	passesAfter, createdAfter, deletedAfter, err := counts()
	if err != nil {
		return err
	}
	hits := float64(len(took))
	line("mixed.hits", hits/lasted, "/s", 0, "")
	line("mixed.hit-rate", 100*hits/(hits+float64(misses)), "percent", 0, "")
	line("mixed.p50", float64(quantile(took, 0.5).Microseconds())/1000, "ms", 0, "")
	line("mixed.p99", float64(quantile(took, 0.99).Microseconds())/1000, "ms", 0, "")
	line("mixed.passes", float64(passesAfter-passes)/lasted, "/s", 0, "")
	line("mixed.creates", float64(createdAfter-created)/lasted, "/s", 0, "")
	line("mixed.deletes", float64(deletedAfter-deleted)/lasted, "/s", 0, "")
	return nil
}
