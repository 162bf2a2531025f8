package lifecycle

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// handoversEvery is how often all claimed workspaces are looked at: what a replica was told of a claim is lost with it. They are when
// it begins, too.
const handoversEvery = 5 * time.Minute

// Claimed says that workspaces were claimed, after the commit. It never blocks and asks nobody.
func (w *Worker) Claimed(ids ...uuid.UUID) { w.handovers.Add(ids...) }

// beginHandovers begins those of what was claimed since, and now and then of all there are, until ctx ends.
func (w *Worker) beginHandovers(ctx context.Context) {
	var looked time.Time
	lease.Loop{
		Clock: w.Clock, Log: w.log, What: "begin handovers", Tags: []string{"lifecycle", "handovers"}, Wake: w.handovers.Wake,
		Pause: func() time.Duration { return handoversEvery/2 + w.Jitter(handoversEvery) },
	}.Run(ctx, func(ctx context.Context) error {
		ids := w.handovers.Take()
		now := w.Clock.Now("lifecycle", "handovers")
		switch all := now.Sub(looked) >= handoversEvery/2; {
		case all:
			ids, looked = nil, now
		case len(ids) == 0: // they went with the wake before
			return nil
		}
		return w.BeginHandovers(ctx, ids...)
	})
}

// BeginHandovers begins those of the claimed workspaces named, or of all, that their specs ask for.
func (w *Worker) BeginHandovers(ctx context.Context, ids ...uuid.UUID) error {
	var at []string
	for _, name := range w.Providers.Names() {
		if w.handsOver(name) {
			at = append(at, name)
		}
	}
	if len(at) == 0 {
		return nil
	}
	n, err := w.Writer.BeginHandovers(ctx, at, ids...)
	if n > 0 {
		w.creates.wake.Ring()
	}
	return err
}

// handsOver says whether workspaces are handed over at a provider. One that cannot be made does not: its jobs wait until it can.
func (w *Worker) handsOver(name string) bool {
	p, err := w.Providers.Get(name)
	if err != nil {
		return false
	}
	_, hands := provider.As[provider.Handover](p)
	return hands
}

// handover makes a claimed workspace its owner's at the provider. Where that cannot be done it is left to its owner as it is.
func (w *Worker) handover(ctx context.Context, j *work) outcome {
	if o, ok := w.load(ctx, j); !ok {
		return o
	}
	hands, ok := provider.As[provider.Handover](j.provider)
	if !ok {
		return w.giveUp(ctx, j, "the provider cannot hand a workspace over", true)
	}
	var inst provider.Instance
	req := provider.HandoverRequest{Ref: j.ref, OwnerID: j.info.Workspace.OwnerID, Owner: j.info.Owner}
	err := w.call(ctx, time.Duration(j.info.BootTimeoutS)*time.Second, func(ctx context.Context) (err error) {
		inst, err = hands.HandOver(ctx, req)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return requeued()
	case err != nil:
		return w.refused(ctx, j, err)
	}
	took, err := w.Writer.HandedOver(ctx, j.held(), facts(inst))
	if err != nil {
		return unrecorded("record handover", err)
	}
	w.metrics.handovers.WithLabelValues("done").Inc()
	w.metrics.handover.Observe(took)
	return done(nil)
}

// notHandedOver tells people: nothing else is done to a claimed workspace (I2).
func (w *Worker) notHandedOver(ctx context.Context, j *work, fault string) outcome {
	if _, err := w.Writer.ClaimNotStarted(ctx, j.held(), text(fault)); err != nil {
		return unrecorded("record failed handover", err)
	}
	w.metrics.handovers.WithLabelValues("failed").Inc()
	w.log.Error(ctx, "a claimed workspace could not be handed over, and is left to its owner as it is",
		slog.F("workspace", j.info.Workspace.Name), slog.F("workspace_id", j.WorkspaceID), slog.Error(errors.New(text(fault))))
	return done(nil)
}
