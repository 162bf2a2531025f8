package lifecycle

import (
	"context"
	"errors"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

const (
	// quarantineEvery is how often kept failures are looked through for those that were kept for long enough.
	quarantineEvery = 5 * time.Second
	quarantineBatch = 50
)

// endQuarantines lets go of quarantined workspaces whose time is over, until ctx ends. Every replica does; each workspace
// goes once.
func (w *Worker) endQuarantines(ctx context.Context) {
	lease.Loop{
		Clock: w.Clock, Log: w.log, What: "end quarantines", Tags: []string{"lifecycle", "quarantine"}, Every: quarantineEvery,
	}.Run(ctx, w.someQuarantines)
}

func (w *Worker) someQuarantines(ctx context.Context) error {
	over, err := lifecycledb.New(w.Store).ExpiredQuarantine(ctx, quarantineBatch)
	if err != nil {
		return xerrors.Errorf("find expired quarantines: %w", err)
	}
	for _, q := range over {
		_, err := w.Writer.EndQuarantine(ctx, q.ID, q.Incarnation)
		if errors.Is(err, workspaces.ErrLost) {
			continue
		}
		if err != nil {
			return xerrors.Errorf("end quarantine: %w", err)
		}
		w.retires.wake.Ring()
		w.Hints.Nudge(q.TemplateID)
	}
	return nil
}
