package claim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// maxInFlight: while one batch waits for its commit, the next one is worked on. More would only make them smaller.
	maxInFlight = 2
	// maxBatch bounds how long a claim can wait for its batch-mates.
	maxBatch = 256
	// batchTries bounds how often a batch runs again that lost against another transaction.
	batchTries = 4
)

// place is one claim's place in a batch.
type place struct {
	workspaces.ClaimFor
	ctx       context.Context //nolint:containedctx // For its values; a batch outlives any one client.
	workspace database.Workspace
	err       error
	came      time.Time
	receipt   Receipt
	done      chan struct{} // closed when the two above are set
}

// placeKey is what no other claim of the same batch may have: of two with one idempotency key the second waits for a later
// batch, and finds the first's claim there.
type placeKey struct {
	user uuid.UUID
	key  string
}

func (p *place) key() placeKey { return placeKey{p.UserID, p.Key} }

// errWithdrawn: the client went away before the claim was part of any statement.
var errWithdrawn = errors.New("withdrawn before it was sent")

// batcher makes one statement of the claims that come at the same time. There is no timer: a claim that finds nothing in
// flight starts a batch at once. Who arrives meanwhile forms the next, which does not wait for the first to end when it
// has grown to half its size: so both the processor and the disk have something to do, and neither is given crumbs.
type batcher struct {
	claim  func(context.Context, []workspaces.ClaimFor, map[uuid.UUID]time.Time) ([]database.Workspace, error)
	floors *floors
	active *sync.WaitGroup
	yield  func()

	mu       sync.Mutex
	pending  []*place
	runners  int               // batches in flight, and those about to be
	inFlight int               // claims in the batches in flight
	keys     map[placeKey]bool // of the batches in flight
}

// take claims one workspace: workspaces.ErrLost if none was free or the key was used before. If ctx ends before the batch
// is formed, nothing was claimed: errWithdrawn. After that the answer is awaited, since nobody else would know of it.
func (b *batcher) take(ctx context.Context, c workspaces.ClaimFor) (database.Workspace, Receipt, error) {
	p := &place{ClaimFor: c, ctx: ctx, came: b.floors.clock.Now("claim", "queue"), done: make(chan struct{})}
	b.mu.Lock()
	b.pending = append(b.pending, p)
	if b.runners < maxInFlight && 2*len(b.pending) >= b.inFlight {
		b.runners++
		b.active.Add(1)
		go b.run()
	}
	b.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		if b.withdraw(p) {
			return database.Workspace{}, Receipt{}, errWithdrawn
		}
		<-p.done
	}
	return p.workspace, p.receipt, p.err
}

// withdraw takes a place out of the batch to come; false if it is in flight already.
func (b *batcher) withdraw(p *place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.pending, p)
	if i < 0 {
		return false
	}
	b.pending = slices.Delete(b.pending, i, i+1)
	return true
}

// run serves batches until nobody is waiting for one.
func (b *batcher) run() {
	defer b.active.Done()
	var last []*place
	for {
		// Those who were answered just now, and those who came with whoever started this, are about to be here.
		b.yield()
		batch := b.next(last)
		if batch == nil {
			return
		}
		b.serve(batch)
		for _, p := range batch {
			close(p.done)
		}
		last = batch
	}
}

// next forms a batch, when the last one is through. Who has a key that is in flight stays for a later one: the batch that
// has the key looks here again when it is through.
func (b *batcher) next(last []*place) []*place {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight -= len(last)
	for _, p := range last {
		if p.Key != "" {
			delete(b.keys, p.key())
		}
	}
	var batch, stay []*place
	for _, p := range b.pending {
		if len(batch) == maxBatch || p.Key != "" && b.keys[p.key()] {
			stay = append(stay, p)
			continue
		}
		if p.Key != "" {
			b.keys[p.key()] = true
		}
		batch = append(batch, p)
	}
	b.pending = stay
	b.inFlight += len(batch)
	if batch == nil {
		b.runners--
	}
	return batch
}

// serve claims for every place of the batch. One that can't be served must not fail the others: if the statement was
// refused for what is in it, each claims on its own.
func (b *batcher) serve(batch []*place) {
	err := b.claimFor(batch)
	for try := 1; try < batchTries && lostToAnother(err); try++ {
		err = b.claimFor(batch)
	}
	switch {
	case err == nil:
	case len(batch) > 1 && refused(err):
		for _, p := range batch {
			b.serve([]*place{p})
		}
	default:
		for _, p := range batch {
			p.err = err
		}
	}
}

func (b *batcher) claimFor(batch []*place) error {
	// Like all writes of claims it does not end with a client's context.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), writeTimeout)
	defer cancel()
	claims := lists.Of(batch, func(p *place) workspaces.ClaimFor { return p.ClaimFor })
	floors := b.floors.of(claims)
	sent := b.floors.clock.Now("claim", "statement")
	got, err := b.claim(ctx, claims, floors)
	if err != nil {
		return err
	}
	took := b.floors.clock.Since(sent, "claim", "statement")
	for _, p := range batch {
		p.receipt = Receipt{Queue: max(0, sent.Sub(p.came)), Statement: took, Batched: true}
	}
	b.floors.learn(claims, got)
	if len(batch) == 1 && len(got) == 1 {
		batch[0].workspace, batch[0].err = got[0], nil
		return nil
	}
	byClaim := make(map[uuid.UUID]int, len(got))
	for i := range got {
		byClaim[got[i].ClaimID.UUID] = i
	}
	for _, p := range batch {
		p.err = workspaces.ErrLost
		if i, ok := byClaim[p.ClaimID]; ok {
			p.workspace, p.err = got[i], nil
		}
	}
	return nil
}

// lostToAnother: run again, the batch sees what the other one has done. A key that was in use is found used then.
func lostToAnother(err error) bool {
	return database.IsUniqueViolation(err, "claims_key") || database.IsSerialization(err) || database.IsDeadlock(err)
}

// refused says whether the statement is known to have done nothing, and would do nothing if it came again: because of
// what one of the claims brings.
func refused(err error) bool {
	if database.IsConnection(err) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var pg *pgconn.PgError
	return !errors.As(err, &pg) || pg.SeverityUnlocalized == "ERROR"
}
