package replica

import (
	"context"
	"sync"
)

// Loops are all that a replica does by itself. Each runs until its context ends; the worker goes on for its grace.
func (r *Replica) Loops() []func(context.Context) {
	loops := []func(context.Context){
		r.Reconciler.Run, r.Worker.Run, r.Instances.Run, r.runTunnels, r.refreshProviders, r.Inventory.Run, r.Machines.Run, r.Keeper.Run,
		r.Sizes.Run, r.Registered.Run, r.Notifier.Run, r.Watchdog.Run, r.Events.Run, r.Leases.Run,
	}
	if r.Inbox != nil {
		loops = append(loops, r.Inbox.Run, r.Runners.Run)
	}
	return loops
}

// Start runs some of the loops.
func (r *Replica) Start(ctx context.Context, loops ...func(context.Context)) {
	for _, run := range loops {
		r.running.Go(func() { run(ctx) })
	}
}

// Wait returns when the claims under way and the loops, whose context has ended, are over. Call it once.
func (r *Replica) Wait() {
	r.Claims.Close()
	r.running.Wait()
}

// runTunnels records what ends with the tunnels of a replica that stops.
func (r *Replica) runTunnels(ctx context.Context) {
	recording, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var recorder sync.WaitGroup
	recorder.Go(func() { r.Sessions.Run(recording) })
	r.Tunnels.Run(ctx)
	end()
	recorder.Wait()
}
