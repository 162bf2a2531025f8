package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// recordWithin is how long a fleet of 100,000 ready workspaces may take to be claimed whole, over HTTP, on two cores.
const recordWithin = 24 * time.Second

// record claims every workspace of a fleet over HTTP, with 32 clients. No claim may be a miss, and no workspace be given twice.
func record(ctx context.Context, b *bench) {
	const clients = 32
	n := sized(b, 100_000, 10_000)
	f := b.fleet(ctx, 1, 0)
	f.add(ctx, n)
	f.settle(ctx)
	d := f.open()
	defer d.close()
	b.checkpoint(ctx)
	var next atomic.Int64
	claimed := make([][]uuid.UUID, clients)
	var all errgroup.Group
	began := time.Now()
	for i := range clients {
		claim, leave := d.claimer(overHTTP)
		defer leave()
		all.Go(func() error {
			return attempt(func() {
				for next.Add(1) <= int64(n) {
					id := claim(ctx, f.pools[0])
					if id == uuid.Nil {
						must(errMiss)
					}
					claimed[i] = append(claimed[i], id)
				}
			})
		})
	}
	must(all.Wait())
	took := time.Since(began)
	total := 0
	for _, ids := range claimed {
		f.distinct(ids)
		total += len(ids)
	}
	if total != n || f.ready(ctx) != 0 {
		fail("%d claims of %d workspaces, and %d are still ready", total, n, f.ready(ctx))
	}
	line(fmt.Sprintf("record.%d-claims", n), took.Seconds(), "s", recordWithin.Seconds()*float64(n)/100_000, "goal")
}
