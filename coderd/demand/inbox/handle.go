package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

const (
	batch      = 100              // deliveries that are handled at once
	leaseFor   = 30 * time.Second // of a batch, which takes milliseconds
	mostTries  = 20
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
	mostText   = 500 // characters of an outcome
)

// handled is a delivery that was read.
type handled struct {
	row     inboxdb.LeaseDeliveriesRow
	told    *told // nil: it is of no job
	outcome string
	label   string // of the metric
	err     error  // it could not be read for now
}

// Drain handles all that is due in the inbox, and matches after each batch.
func (s *Service) Drain(ctx context.Context) error {
	for {
		n, err := s.handleBatch(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if n == batch {
			s.Hints.InboxFull()
		}
		if err := s.Match(ctx); err != nil {
			return err
		}
	}
}

// handleBatch leases some deliveries and handles them. Where they can't be stored together, each is tried alone.
func (s *Service) handleBatch(ctx context.Context) (int, error) {
	rows, err := inboxdb.New(s.Store).LeaseDeliveries(ctx, inboxdb.LeaseDeliveriesParams{
		Replica: s.Replica, LeaseS: leaseFor.Seconds(), MaxDeliveries: batch,
	})
	if err != nil {
		return 0, xerrors.Errorf("lease deliveries: %w", err)
	}
	slices.SortFunc(rows, func(a, b inboxdb.LeaseDeliveriesRow) int { return int(a.ID - b.ID) })
	read := lists.Of(rows, func(row inboxdb.LeaseDeliveriesRow) handled { return s.read(ctx, row) })
	if len(read) == 0 {
		return 0, nil
	}
	if err := s.storeHandled(ctx, read); err == nil {
		return len(read), nil
	} else if database.IsConnection(err) || ctx.Err() != nil {
		return 0, err // the lease ends by itself
	}
	for _, h := range read {
		if h.err != nil {
			continue // it was put off
		}
		if err := s.storeHandled(ctx, []handled{h}); err != nil {
			if database.IsConnection(err) || ctx.Err() != nil {
				return 0, err
			}
			h.err = err
			if err := s.putOff(ctx, h); err != nil {
				return 0, err
			}
		}
	}
	return len(read), nil
}

// read says what a delivery is of.
func (s *Service) read(ctx context.Context, row inboxdb.LeaseDeliveriesRow) handled {
	h := handled{row: row, label: "ignored"}
	entity, err := s.Directory.ByID(ctx, row.EntityID)
	if errors.Is(err, ErrNoEntity) {
		h.outcome = "ignored: the entity is deleted"
		return h
	}
	if err != nil {
		h.err = xerrors.Errorf("find entity: %w", err)
		return h
	}
	job, err := entity.Kind.Job(row.Event, row.Body)
	switch {
	case err != nil:
		h.outcome, h.label = "unreadable: "+err.Error(), "unreadable" // and will be so however often it is read
	case job == nil:
		h.outcome = "ignored: " + row.Event + " is of no job that waits, runs or ended"
	case !forge.Covers(entity.Scope, entity.Path, job.Repository):
		// The secret of one entity gives no say over the jobs of another.
		h.outcome = fmt.Sprintf("ignored: %s is not of the %s %s; if it was renamed or moved, apply the forge with its new path",
			job.Repository, entity.Scope, entity.Path)
		h.label = "foreign"
	default:
		h.told = &told{entity: entity, job: clean(*job)}
		h.outcome = fmt.Sprintf("job %d, attempt %d: %s", h.told.job.ID, h.told.job.Attempt, h.told.job.State)
		h.label = "job"
	}
	return h
}

// storeHandled merges what was read and says so in the inbox, in one transaction.
func (s *Service) storeHandled(ctx context.Context, read []handled) error {
	var done inboxdb.HandleDeliveriesParams
	var tolds []told
	for _, h := range read {
		if h.err != nil {
			if err := s.putOff(ctx, h); err != nil {
				return err
			}
			continue
		}
		done.Ids, done.Attempts = append(done.Ids, h.row.ID), append(done.Attempts, h.row.Attempts)
		done.Outcomes = append(done.Outcomes, text(h.outcome))
		if h.told != nil {
			tolds = append(tolds, *h.told)
		}
	}
	done.Replica = s.Replica
	var freed []uuid.UUID
	err := s.Store.InTx(ctx, database.TxOptions{Label: "handle deliveries"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			if freed, err = s.merge(ctx, tx, tolds); err != nil {
				return err
			}
			if _, err := inboxdb.New(tx).HandleDeliveries(ctx, done); err != nil {
				return xerrors.Errorf("mark deliveries: %w", err)
			}
			return nil
		})
	if err != nil {
		return err //nolint:wrapcheck // InTx says what it was
	}
	for _, h := range read {
		if h.err == nil {
			s.metrics.handled.WithLabelValues(h.label).Inc()
		}
	}
	if len(tolds) > 0 {
		s.Hints.Settle()
	}
	s.nudge(ctx, freed)
	return nil
}

// putOff tries a delivery again later, or gives it up.
func (s *Service) putOff(ctx context.Context, h handled) error {
	why := text(h.err.Error())
	if h.row.Attempts >= mostTries {
		s.metrics.handled.WithLabelValues("gave up").Inc()
		s.Log.Error(ctx, "gave up on a delivery", slog.F("entity", h.row.EntityID), slog.F("delivery", h.row.DeliveryID),
			slog.Error(h.err))
		_, err := inboxdb.New(s.Store).HandleDeliveries(ctx, inboxdb.HandleDeliveriesParams{
			Ids: []int64{h.row.ID}, Attempts: []int32{h.row.Attempts}, Replica: s.Replica,
			Outcomes: []string{text(fmt.Sprintf("given up after %d tries: %s", h.row.Attempts, why))},
		})
		if err != nil {
			return xerrors.Errorf("give up delivery: %w", err)
		}
		return nil
	}
	s.metrics.handled.WithLabelValues("retried").Inc()
	s.Log.Warn(ctx, "a delivery is tried again later", slog.F("entity", h.row.EntityID),
		slog.F("delivery", h.row.DeliveryID), slog.F("tries", h.row.Attempts), slog.Error(h.err))
	after := min(retryFirst<<min(h.row.Attempts-1, 10), retryMost)
	err := inboxdb.New(s.Store).ReturnDelivery(ctx, inboxdb.ReturnDeliveryParams{
		ID: h.row.ID, Attempts: h.row.Attempts, Replica: s.Replica, AfterS: after.Seconds(), Outcome: why,
	})
	if err != nil {
		return xerrors.Errorf("return delivery: %w", err)
	}
	return nil
}
