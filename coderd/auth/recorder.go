package auth

import (
	"context"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// recorderMost is how many entries may wait to be written; a caller with more entries waits.
	recorderMost  = 4096
	recorderBatch = 256
	recorderAgain = time.Second
	recorderLast  = 5 * time.Second
)

// Recorder writes entries about what changes no row, such as sessions: a moment after they happen, many at once, so that they
// hold up nobody. What a process that is killed had not written yet is lost, which is what came in the last moment before.
type Recorder struct {
	store *database.Store
	clock quartz.Clock
	log   slog.Logger

	waiting chan Entry
	stopped chan struct{}
	once    sync.Once
}

// NewRecorder returns one that writes while Run runs.
func NewRecorder(store *database.Store, clock quartz.Clock, log slog.Logger) *Recorder {
	return &Recorder{store: store, clock: clock, log: log, waiting: make(chan Entry, recorderMost), stopped: make(chan struct{})}
}

// Add has an entry written. It waits where very many are not written yet. After the end of Run it does nothing.
func (r *Recorder) Add(e Entry) {
	if r == nil { // nobody records
		return
	}
	select {
	case <-r.stopped:
	case r.waiting <- e:
	}
}

// Run writes until ctx ends, and then what is left.
func (r *Recorder) Run(ctx context.Context) {
	defer r.once.Do(func() { close(r.stopped) })
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), recorderLast)
			defer cancel()
			for len(r.waiting) > 0 {
				if err := r.write(last, r.take(<-r.waiting)); err != nil {
					r.log.Warn(last, "write audit log of sessions", slog.Error(err))
					return
				}
			}
			return
		case first := <-r.waiting:
			batch := r.take(first)
			for {
				err := r.write(context.WithoutCancel(ctx), batch)
				if err == nil {
					break
				}
				r.log.Warn(ctx, "write audit log of sessions; it is tried again", slog.Error(err))
				if wait.For(ctx, r.clock, recorderAgain, "auth", "recorder") != nil {
					return
				}
			}
		}
	}
}

// take returns an entry with those that wait behind it.
func (r *Recorder) take(first Entry) []Entry {
	batch := []Entry{first}
	for len(batch) < recorderBatch {
		select {
		case e := <-r.waiting:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

func (r *Recorder) write(ctx context.Context, batch []Entry) error {
	ctx, cancel := context.WithTimeout(ctx, recorderLast)
	defer cancel()
	err := r.store.InTx(ctx, database.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		for _, e := range batch {
			if err := Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return xerrors.Errorf("write %d entries: %w", len(batch), err)
	}
	return nil
}
