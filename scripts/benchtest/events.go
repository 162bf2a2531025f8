package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// events is what screens cost a replica: each has a stream of its own, over which it hears of every change. The changes are
// written beside the replica, which has nothing else to do, and hinted at, so that it looks as often as it ever does. The
// yardstick is the same replica under the same changes without anybody who looks.
func events(ctx context.Context, b *bench) {
	const screens, perSecond = 500, 50
	spell := 4 * b.window()
	f, r, end := b.running(ctx, 1, 0, "events")
	defer end()
	// core writes changes for a spell, and returns what the replica has spent of a core, in per cent.
	core := func() float64 {
		before, began := spent(get(procStat(r.cmd.Process.Pid))), time.Now()
		f.change(ctx, perSecond, spell)
		return 100 * (spent(get(procStat(r.cmd.Process.Pid))) - before).Seconds() / time.Since(began).Seconds()
	}
	idle := core()
	idleMemory, _ := r.resident()
	looking, leave := context.WithCancel(ctx)
	defer leave()
	var heard atomic.Int64
	var joined sync.WaitGroup
	var listening errgroup.Group
	joined.Add(screens)
	for range screens {
		listening.Go(func() error {
			err := attempt(func() { follow(looking, r.client, sync.OnceFunc(joined.Done), &heard) })
			if looking.Err() != nil {
				err = nil // it is to leave
			}
			return err
		})
	}
	joined.Wait()
	heard.Store(0)
	began := time.Now()
	busy := core()
	lasted := time.Since(began).Seconds()
	n := heard.Load()
	memory, _ := r.resident()
	leave()
	must(listening.Wait())
	if n == 0 {
		fail("no screen heard of any change")
	}
	line("events.500-screens.core", busy, "percent", idle, "without-screens")
	line("events.500-screens.memory", float64(memory)/(1<<20), "MiB", float64(idleMemory)/(1<<20), "without-screens")
	line("events.500-screens.messages", float64(n)/lasted, "/s", 0, "")
}

// follow is one screen. joined, which counts once, is called when its stream is there, or never will be.
func follow(ctx context.Context, client *sdk.Client, joined func(), heard *atomic.Int64) {
	defer joined()
	stream := get(client.Events(ctx))
	defer stream.Close()
	if first := get(stream.Next(ctx)); !first.Everything {
		fail("the first message is not everything: %+v", first)
	}
	joined()
	for {
		get(stream.Next(ctx))
		heard.Add(1)
	}
}

// change writes so many changes a second that screens hear of.
func (f *fleet) change(ctx context.Context, perSecond int, spell time.Duration) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := range int(spell.Seconds()) * perSecond {
		get(f.store.Pool.Exec(ctx, `INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id)
			SELECT now(), m.user_id, m.organization_id, 'preset.test', 'preset', $1 FROM memberships m WHERE role = 'owner'`,
			fmt.Sprint(i)))
		// As a claim that was bound would; of no claim that anybody waits for.
		must(database.New(f.store).Notify(ctx, database.NotifyParams{Channel: hints.Bindings, Payload: "none"}))
		select {
		case <-tick.C:
		case <-ctx.Done():
			must(ctx.Err())
		}
	}
}
