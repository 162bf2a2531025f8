// Package hints carries hints between the rooms of a replica, and between replicas: something may have changed, look now.
//
// A hint decides nothing. Each has a poll behind it, so that one that is lost costs time only. What is certain is this:
// within a replica no hint is lost, and no sender waits for who hears it. A replica that may have missed hints of others
// looks at everything (Missed; I9).
//
//	hint              in this replica             to the others
//	Nudge             templates for a pass        prewarm_nudge, by the reconciler: many at once, with the database's time
//	Refill            the same, a moment later    the same
//	Wake              the workers                 prewarm_jobs
//	WakeHere          the workers                 not at all: theirs find it by polling
//	Bound             the client that waits       prewarm_claim with the claim's id, unless the client waits here
//	Claimed           not needed                  prewarm_claimed: an agent elsewhere may have a new owner
//	Released          not needed                  prewarm_released: tunnels elsewhere may be over
//	ProvidersChanged  the registry of providers   prewarm_providers
//	InboxFull         not needed                  prewarm_inbox: there is more than one replica takes at a time
//	DemandChanged     the matching of jobs        not at all
//	Settle            claims and releases by jobs not at all
//
// Bound and Claimed return when the others have been told, or after a second. The rest is published in the background.
package hints

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
)

// The channels between replicas, as they are on the wire.
const (
	Nudges    = "prewarm_nudge" // also in queries/reconcile/reconcile.sql
	Bindings  = "prewarm_claim"
	Claims    = "prewarm_claimed"
	Releases  = "prewarm_released"
	Jobs      = "prewarm_jobs"
	Providers = "prewarm_providers"
	Inbox     = "prewarm_inbox"
)

// Channels are all of them.
func Channels() []string { return []string{Nudges, Bindings, Claims, Releases, Jobs, Providers, Inbox} }

// publishFor bounds how long telling the others takes.
const publishFor = time.Second

// Publisher sends a hint to all replicas, this one included. pubsub.PubSub is one.
type Publisher interface {
	Publish(ctx context.Context, channel, payload string) error
}

// Ears are who hears hints in this replica. None of them may block. Nil: nobody.
type Ears struct {
	Nudge  func(templates ...uuid.UUID)                  // templates need a pass
	Refill func(template uuid.UUID)                      // one needs a pass that can wait a moment; nil: Nudge hears it
	Cause  func(ctx context.Context, template uuid.UUID) // the next pass over the template is in the trace of ctx
	Wake   func()                                        // there are jobs
	Bound  func(claim uuid.UUID) (waits bool)            // a claim has its workspace; true: its client waits here

	Claimed   func()               // agents may have a new owner
	Released  func(payload string) // claims of these workspaces have ended; of any, where it is empty
	Providers func()               // the configured providers may be others
	Inbox     func()               // there may be deliveries
	Demand    func()               // whose demand a job is may be another than before
	Settle    func()               // jobs or runners may have changed

	HeardNudge   func(payload string) // another replica has nudged
	MissedNudges func()               // others may have nudged
	MissedBound  func()               // any claim may have been bound

	Any func() // something came from the replicas, whatever it is
}

// ring calls f, if anybody hears.
func ring(f func()) {
	if f != nil {
		f()
	}
}

// Hints are those of one replica. Once connected, it is safe for concurrent use.
type Hints struct {
	ctx       context.Context
	publisher Publisher // nil: there are no other replicas
	log       slog.Logger
	ears      Ears
}

// New returns Hints that nobody hears in this replica until Connect. They are published to the others until ctx ends.
func New(ctx context.Context, publisher Publisher, log slog.Logger) *Hints {
	return &Hints{ctx: ctx, publisher: publisher, log: log}
}

// Local returns Hints of a replica that is alone.
func Local(ears Ears) *Hints { return &Hints{ears: ears} }

// Connect sets who hears. Call it before anything runs: rooms are made with the Hints, and then heard of here.
func (h *Hints) Connect(ears Ears) { h.ears = ears }

// Nudge asks for a pass over these templates, here or on any other replica. Call it after the commit of what the pass is to
// see.
func (h *Hints) Nudge(templates ...uuid.UUID) {
	if h.ears.Nudge != nil {
		h.ears.Nudge(templates...)
	}
}

// Refill is Nudge after a claim that was served from the template's pools: nobody waits for what comes in its place, and one
// pass can serve many such claims.
func (h *Hints) Refill(template uuid.UUID) {
	if h.ears.Refill == nil {
		h.Nudge(template)
		return
	}
	h.ears.Refill(template)
}

// Cause says in whose trace the pass is that follows a nudge of the template. Call it before the nudge.
func (h *Hints) Cause(ctx context.Context, template uuid.UUID) {
	if h.ears.Cause != nil {
		h.ears.Cause(ctx, template)
	}
}

// Wake tells the workers of all replicas that there are jobs.
func (h *Hints) Wake() {
	ring(h.ears.Wake)
	h.publishSoon(Jobs)
}

// WakeHere tells the workers of this replica only.
func (h *Hints) WakeHere() { ring(h.ears.Wake) }

// Bound wakes the client of a waiting claim that got its workspace, wherever it waits, and has the pool refilled.
func (h *Hints) Bound(claim, template uuid.UUID) {
	if !h.waits(claim) {
		h.publish(Bindings, claim.String())
	}
	h.Nudge(template)
}

func (h *Hints) waits(claim uuid.UUID) bool { return h.ears.Bound != nil && h.ears.Bound(claim) }

// Claimed tells the other replicas that an agent has a new owner. In this replica coderd/instance delivers it.
func (h *Hints) Claimed() { h.publish(Claims, "") }

// Released tells the other replicas that claims of these workspaces, with commas between their ids, have ended.
func (h *Hints) Released(workspaces string) { h.publish(Releases, workspaces) }

// ProvidersChanged has all replicas read the providers again.
func (h *Hints) ProvidersChanged() {
	ring(h.ears.Providers)
	h.publishSoon(Providers)
}

// InboxFull tells the other replicas that the inbox has more than this one takes at a time.
func (h *Hints) InboxFull() { h.publishSoon(Inbox) }

// DemandChanged has jobs of forges matched again: presets of runners, or entities, have changed.
func (h *Hints) DemandChanged() { ring(h.ears.Demand) }

// Settle has claims bound and released by what jobs of forges do.
func (h *Hints) Settle() { ring(h.ears.Settle) }

func (h *Hints) publishSoon(channel string) { go h.publish(channel, "") }

// publish returns within a second. A hint that is lost costs no more than the next poll.
func (h *Hints) publish(channel, payload string) {
	if h.publisher == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, publishFor)
	defer cancel()
	if err := h.publisher.Publish(ctx, channel, payload); err != nil && ctx.Err() == nil {
		h.log.Debug(ctx, "publish hint", slog.F("channel", channel), slog.Error(err))
	}
}

// Heard takes what a replica published, this one perhaps.
func (h *Hints) Heard(channel, payload string) {
	ring(h.ears.Any)
	switch channel {
	case Nudges:
		if h.ears.HeardNudge != nil {
			h.ears.HeardNudge(payload)
		}
	case Bindings:
		if claim, err := uuid.Parse(payload); err == nil {
			h.waits(claim)
		}
	case Claims:
		ring(h.ears.Claimed)
	case Releases:
		if h.ears.Released != nil {
			h.ears.Released(payload)
		}
	case Jobs:
		ring(h.ears.Wake)
	case Providers:
		ring(h.ears.Providers)
	case Inbox:
		ring(h.ears.Inbox)
	}
}

// Missed says that any number of hints of a channel may have been lost: what they are about is looked at again (I9).
func (h *Hints) Missed(channel string) {
	switch channel {
	case Nudges:
		ring(h.ears.Any)
		ring(h.ears.MissedNudges)
	case Bindings:
		ring(h.ears.Any)
		ring(h.ears.MissedBound)
	default:
		h.Heard(channel, "")
	}
}
