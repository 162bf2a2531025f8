// Package leases ends what claims have for a time only: leases of claimed workspaces, which are released, and places in
// line, which are missed. Every replica looks now and then, by indexes that hold claims with a lease, and claims that wait,
// and no others; that two look at the same one does no harm, since the release asks again, in its own transaction, whether
// the lease is over. A renewal that is in time is never lost (I2).
package leases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/leasesdb"
)

const (
	every = 5 * time.Second
	batch = 100
)

// Ender ends leases.
type Ender struct {
	Store  *database.Store
	Writer *workspaces.Writer
	Clock  quartz.Clock
	Log    slog.Logger
	Hints  *hints.Hints
	Jitter func(time.Duration) time.Duration // from zero to below the given span; nil: by chance
}

// Run ends leases until ctx ends.
func (e *Ender) Run(ctx context.Context) {
	jitter := e.Jitter
	if jitter == nil {
		jitter = rand.N[time.Duration]
	}
	lease.Loop{
		Clock: e.Clock, Log: e.Log, What: "end leases", Tags: []string{"leases"}, Later: true,
		Pause: func() time.Duration { return every/2 + jitter(every) },
	}.Run(ctx, e.End)
}

// End ends the waits and the leases that are over now. One that cannot be ended does not keep the others.
func (e *Ender) End(ctx context.Context) error {
	if n, err := leasesdb.New(e.Store).EndExpiredWaiting(ctx); err != nil {
		return xerrors.Errorf("end waits: %w", err)
	} else if n > 0 {
		e.Log.Info(ctx, "ended waits of clients that are gone", slog.F("claims", n))
	}
	rows, err := leasesdb.New(e.Store).EndedLeases(ctx, batch)
	if err != nil {
		return xerrors.Errorf("find ended leases: %w", err)
	}
	var failed []error
	for _, row := range rows {
		if row.LeaseS == nil || row.Incarnation == nil {
			continue
		}
		reason := fmt.Sprintf("the lease of %s was over", time.Duration(*row.LeaseS)*time.Second)
		moved, err := e.Writer.EndLease(ctx, row.WorkspaceID.UUID, *row.Incarnation, reason)
		switch {
		case err == nil:
			e.Log.Info(ctx, "released a workspace", slog.F("workspace_id", row.WorkspaceID.UUID), slog.F("reason", reason))
			e.Hints.Nudge(moved.TemplateID)
			e.Hints.Wake()
		case errors.Is(err, workspaces.ErrRenewed), errors.Is(err, workspaces.ErrNotClaimed),
			errors.Is(err, workspaces.ErrNotFound): // somebody was faster
		default:
			failed = append(failed, xerrors.Errorf("end lease of claim %s: %w", row.ID, err))
		}
	}
	return errors.Join(failed...)
}
