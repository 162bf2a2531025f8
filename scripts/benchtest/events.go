package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// events is what screens cost a replica: each has a stream of its own, over which it hears of every change. The changes are
// written beside the replica, which has nothing else to do, and hinted at, so that it looks as often as it ever does. The
// yardstick is the same replica under the same changes without anybody who looks.
func events(ctx context.Context, b *bench) error {
	const screens, perSecond = 500, 50
	spell := 4 * b.window()
	f, err := b.fleet(ctx, 1, 0)
	if err != nil {
		return err
	}
	defer f.drop()
	r, err := b.serve(ctx, f, "events", 15*time.Second)
	if err != nil {
		return err
	}
	defer r.stop()
	// spent writes changes for a spell, and returns what the replica has spent of a core, in per cent.
	spent := func() (float64, error) {
		before, err := procStat(r.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := f.change(ctx, perSecond, spell); err != nil {
			return 0, err
		}
		after, err := procStat(r.cmd.Process.Pid)
		return 100 * (after.own - before.own).Seconds() / time.Since(began).Seconds(), err
	}
	idle, err := spent()
	if err != nil {
		return err
	}
	idleMemory, _, err := r.resident()
	if err != nil {
		return err
	}
	looking, leave := context.WithCancel(ctx)
	var heard atomic.Int64
	var joined, listening sync.WaitGroup
	var mu sync.Mutex
	var failed error
	joined.Add(screens)
	for range screens {
		listening.Go(func() {
			if err := follow(looking, r.client, sync.OnceFunc(joined.Done), &heard); looking.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	joined.Wait()
	heard.Store(0)
	began := time.Now()
	busy, err := spent()
	lasted := time.Since(began).Seconds()
	n := heard.Load()
	memory, _, memoryErr := r.resident()
	leave()
	listening.Wait()
	if err := errors.Join(err, memoryErr, failed); err != nil {
		return err
	}
	if n == 0 {
		return errors.New("no screen heard of any change")
	}
	line("events.500-screens.core", busy, "percent", idle, "without-screens")
	line("events.500-screens.memory", float64(memory)/(1<<20), "MiB", float64(idleMemory)/(1<<20), "without-screens")
	line("events.500-screens.messages", float64(n)/lasted, "/s", 0, "")
	return nil
}

// follow is one screen. joined, which counts once, is called when its stream is there, or never will be.
func follow(ctx context.Context, client *sdk.Client, joined func(), heard *atomic.Int64) error {
	defer joined()
	stream, err := client.Events(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	first, err := stream.Next(ctx)
	if err != nil {
		return err
	}
	if !first.Everything {
		return fmt.Errorf("the first message is not everything: %+v", first)
	}
	joined()
	for {
		if _, err := stream.Next(ctx); err != nil {
			return err
		}
		heard.Add(1)
	}
}

// change writes so many changes a second that screens hear of.
func (f *fleet) change(ctx context.Context, perSecond int, spell time.Duration) error {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := range int(spell.Seconds()) * perSecond {
		_, err := f.store.Pool.Exec(ctx, `INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id)
			SELECT now(), m.user_id, m.organization_id, 'preset.test', 'preset', $1 FROM memberships m WHERE role = 'owner'`,
			fmt.Sprint(i))
		if err != nil {
			return err
		}
		// As a claim that was bound would; of no claim that anybody waits for.
		if err := f.store.Notify(ctx, database.NotifyParams{Channel: claim.BoundChannel, Payload: "none"}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
