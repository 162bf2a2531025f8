package replica

import (
	"context"
	"slices"
)

// Loop is something that a replica does by itself.
type Loop string

// The loops of a replica.
const (
	Passes        Loop = "passes"
	Work          Loop = "work"
	Agents        Loop = "agents"
	Providers     Loop = "providers"
	Inventories   Loop = "inventories"
	Machines      Loop = "machines"
	Retention     Loop = "retention"
	Sizes         Loop = "sizes"
	Heartbeats    Loop = "heartbeats"
	Notifications Loop = "notifications"
	Watchdog      Loop = "watchdog"
	Events        Loop = "events"
	Leases        Loop = "leases"
	Inbox         Loop = "inbox"
	Runners       Loop = "runners"
)

// Start runs the loops of the parts until ctx ends; the worker goes on for its grace (lifecycle).
func (r *Replica) Start(ctx context.Context) {
	for _, l := range []struct {
		loop Loop
		run  func(context.Context)
	}{
		{Passes, func(ctx context.Context) { _ = r.Reconciler.Run(ctx) }},
		{Work, func(ctx context.Context) { _ = r.Worker.Run(ctx) }},
		{Agents, r.Instances.Run},
		{Providers, r.refreshProviders},
		{Inventories, r.Inventory.Run},
		{Machines, r.Machines.Run},
		{Retention, r.Keeper.Run},
		{Sizes, r.Sizes.Run},
		{Heartbeats, r.Registered.Run},
		{Notifications, r.Notifier.Run},
		{Watchdog, r.Watchdog.Run},
		{Events, r.Events.Run},
		{Leases, r.Leases.Run},
		{Inbox, r.Inbox.Run},
		{Runners, r.Runners.Run},
	} {
		if r.runs(l.loop) {
			r.running.Go(func() { l.run(ctx) })
		}
	}
}

func (r *Replica) runs(l Loop) bool {
	if (l == Inbox || l == Runners) && r.parts.Directory == nil {
		return false
	}
	return r.parts.Loops == nil || slices.Contains(r.parts.Loops, l)
}

// Wait returns when the claims under way and the loops, whose context has ended, are over. Call it once.
func (r *Replica) Wait() {
	r.Claims.Close()
	r.running.Wait()
}
