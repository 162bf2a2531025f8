package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// openSnapshot measures claims while another session holds a snapshot, as a dump or a slow query does, so that no index
// entry of what is claimed can be removed.
func openSnapshot(ctx context.Context, b *bench) {
	const clients = 32
	long := sized(b, 60*time.Second, 6*time.Second)
	d := b.fleet(ctx, 1, 0).open()
	defer d.close()
	rate := 12_000.0
	var without, with []sample
	for round := range 2 {
		d.stock(ctx, int(1.3*rate*(warmUp+b.window()).Seconds()))
		d.settle(ctx)
		s := d.measure(ctx, b, store, clients, 0)
		without, rate = append(without, s), s.perSecond
		if round == 1 {
			break
		}
		d.stock(ctx, int(1.3*rate*(long+b.window()).Seconds()))
		d.settle(ctx)
		held := get(pgx.Connect(ctx, d.url))
		tx := get(held.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
		get(tx.Exec(ctx, "SELECT count(*) FROM workspaces"))
		began := time.Now()
		for time.Since(began) < long { // in windows, to see whether it gets worse
			s := d.measure(ctx, b, store, clients, 0)
			fmt.Fprintf(os.Stderr, "# after %.0f s of the snapshot: %.0f/s, %.0f us of processor, %.0f bytes of log each\n",
				time.Since(began).Seconds(), s.perSecond, micros(s), s.wal)
			with = append(with, s)
		}
		_ = tx.Rollback(ctx)
		_ = held.Close(ctx)
	}
	name := fmt.Sprintf("snapshot.%.0fs.store.%d", long.Seconds(), clients)
	during, beside, last := whole(with), whole(without), with[len(with)-1]
	line(name, during.perSecond, "/s", beside.perSecond, "without-it")
	line(name+".last-window", last.perSecond, "/s", beside.perSecond, "without-it")
	line(name+".processor", micros(during), "us", micros(beside), "without-it")
	line(name+".last-window.processor", micros(last), "us", micros(beside), "without-it")
}
