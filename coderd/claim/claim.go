package claim

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// ErrKeyReused: the idempotency key was used before, for another preset.
var ErrKeyReused = errors.New("the idempotency key was used before for another preset")

// ErrCountChanged: the idempotency key was used before, for another number of workspaces.
var ErrCountChanged = errors.New("the idempotency key was used before for another number of workspaces")

// Request is one claim.
type Request struct {
	UserID         uuid.UUID
	Source         string // remote address, for the audit log
	OrganizationID uuid.UUID
	PresetID       uuid.UUID
	Mode           database.ClaimMode
	Wait           time.Duration // how long prefer may wait; not above zero: not at all
	Key            string        // idempotency key; empty for none
	// Names of the preset, for metrics and traces; may be empty.
	Names Names
	// Parameters are for the agent of the claimed workspace; perhaps secrets.
	Parameters map[string]string
	// Secrets are too, and are wiped once it has them.
	Secrets map[string]string
	// Cold has prefer wait for a workspace that is built for it, where none is warm. Bypass always does.
	Cold bool
	// Count is how many workspaces are claimed, all or none; one where it is not above 1.
	Count int
	// Lease ends the claim by itself; whole seconds, 0: what the template says.
	Lease time.Duration
	// WaitReady is how long on_claim is waited for in each workspace; 0: not.
	WaitReady time.Duration
	// Gone says whether the client has closed its connection, which the context may know only later. Nil: that is not known.
	Gone func() bool

	again bool // another request made the claim that has its key
}

// Names are how people call a preset.
type Names struct{ Organization, Template, Preset string }

// Result says hit, waited or miss; a miss has no workspace but a reason.
type Result struct {
	ClaimID    uuid.UUID
	Outcome    database.ClaimOutcome
	Reason     string // of a miss
	ReasonCode prebuilds.Code
	Waited     time.Duration
	Workspace  *database.Workspace
	Standby    bool   // it was stopped, and is started for this claim
	Starting   bool   // with Standby: that is not over yet
	Fault      string // why it could not be started (Standby), or not be applied for its owner (WaitReady); empty otherwise
	Gone       bool   // a miss because the preset or its template was deleted
	Receipt    Receipt
	// LeaseUntil is when it ends by itself, where the request said how long; nil: not, or as the template says. Of several, the
	// earliest.
	LeaseUntil *time.Time
	// Replaced workspaces failed in on_claim and were given up before this one (WaitReady).
	Replaced int
	// Together are all that were claimed, where more than one was asked for; the first is also in the fields above.
	Together []Given
}

// Given is one of several workspaces that were claimed together.
type Given struct {
	ClaimID    uuid.UUID
	Workspace  database.Workspace
	LeaseUntil *time.Time // when it ends by itself: each is renewed alone
}

// Options of a Service. All are needed but those that say otherwise.
type Options struct {
	Store      *database.Store
	Writer     *workspaces.Writer
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	NewID      func() uuid.UUID
	Hints      *hints.Hints
	Tracer     trace.Tracer // nil: no traces
	// MaxWaiting is how many claims of one user may wait, and MaxCold how many of these for a workspace that is built for
	// them. 0: as many as they like.
	MaxWaiting, MaxCold int32
	// HandOver begins what the spec of a claimed workspace asks for, to be waited for (WaitReady). Nil: nothing is to be begun.
	HandOver func(ctx context.Context, workspaceIDs ...uuid.UUID) error
	// Yield lets other goroutines run before a batch is formed. Nil: runtime.Gosched.
	Yield func()
}

// Service claims. It is safe for concurrent use.
type Service struct {
	Options
	metrics *metrics
	batches *batcher

	active  sync.WaitGroup // claims and clean-ups under way
	closing chan struct{}

	mu      sync.Mutex
	waiting map[uuid.UUID]hints.Bell // claims that wait on this replica
	lines   map[uuid.UUID]*line      // that they stand in, by preset
	bind    func(ctx context.Context, presetID uuid.UUID) ([]workspaces.Bound, error)
}

// New returns a Service.
func New(o Options) *Service {
	o.Log = o.Log.Named("claim")
	o.Tracer = tracing.OrOff(o.Tracer)
	if o.HandOver == nil {
		o.HandOver = func(context.Context, ...uuid.UUID) error { return nil }
	}
	if o.Yield == nil {
		o.Yield = runtime.Gosched
	}
	s := &Service{
		Options: o, metrics: newMetrics(o.Registerer), closing: make(chan struct{}),
		waiting: map[uuid.UUID]hints.Bell{}, lines: map[uuid.UUID]*line{}, bind: o.Writer.BindOldest,
	}
	s.batches = &batcher{
		claim: o.Writer.ClaimBatch, floors: &floors{clock: o.Clock, pools: map[uuid.UUID]*floor{}}, active: &s.active,
		keys: map[placeKey]bool{}, yield: o.Yield,
	}
	return s
}

// writeTimeout bounds each write of a claim. Writes do not end with the client's context: a statement that is cut off may
// still commit, and then nobody would know of the claim.
const writeTimeout = 10 * time.Second

// keyTries bounds how often a claim starts anew because the claim that had its key ended in that moment.
const keyTries = 3

// Claim answers a claim. Errors are those of the database, ErrKeyReused, and the context's.
func (s *Service) Claim(ctx context.Context, req Request) (Result, error) {
	s.active.Add(1)
	defer s.active.Done()
	start := s.Clock.Now("claim", "start")
	ctx, span := s.startTrace(ctx, req)
	res, err := Result{}, req.gone(ctx)
	if err == nil {
		res, err = s.claim(ctx, req)
	}
	if err == nil && req.WaitReady > 0 {
		res, err = s.ready(ctx, req, res)
	}
	s.endTrace(span, res, err)
	s.metrics.observe(req, res, s.Clock.Since(start, "claim", "end"), err)
	return res, err
}

func (s *Service) claim(ctx context.Context, req Request) (Result, error) {
	for range keyTries {
		res, err := s.claimNew(ctx, req)
		if !database.IsUniqueViolation(err, "claims_key") {
			return res, err
		}
		res, err = s.resume(ctx, req)
		if !errors.Is(err, pgx.ErrNoRows) {
			return res, err
		}
	}
	return Result{}, xerrors.Errorf("claim with key: %w", workspaces.ErrLost)
}

func (s *Service) claimNew(ctx context.Context, req Request) (Result, error) {
	ids := s.newIDs(req)
	if err := s.keepParameters(ctx, req, ids); err != nil {
		return Result{}, err
	}
	res, err := s.claimAs(ctx, req, ids)
	var quota *QuotaExceeded
	var runners *OfRunners
	if err == nil && (res.ClaimID != ids[0] || res.Workspace == nil) || errors.As(err, &quota) || errors.As(err, &runners) {
		s.dropParameters(ctx, req, ids)
	}
	return res, err
}

// claimAs claims under new ids: one, or as many as are claimed together.
func (s *Service) claimAs(ctx context.Context, req Request, ids []uuid.UUID) (Result, error) {
	if len(ids) > 1 || req.Mode == database.ClaimModeBypass {
		return s.standInLine(ctx, req, ids)
	}
	c := req.claimFor(ids[0])
	w, receipt, err := s.batches.take(ctx, c)
	if errors.Is(err, workspaces.ErrLost) {
		if req.Key != "" { // is it why?
			res, err := s.resume(ctx, req)
			if !errors.Is(err, pgx.ErrNoRows) {
				return res, err
			}
		}
		w, err = s.takeLast(ctx, c)
	}
	switch {
	case err == nil && req.gone(ctx) != nil:
		return Result{}, s.takeBack(ctx, req, c.ClaimID, w.TemplateID)
	case err == nil:
		s.Hints.Cause(ctx, w.TemplateID)
		s.Hints.Refill(w.TemplateID)
		return s.hit(ctx, req, Result{
			ClaimID: c.ClaimID, Outcome: database.ClaimOutcomeHit, Workspace: &w, Receipt: receipt,
		})
	case errors.Is(err, errWithdrawn):
		return Result{}, ctx.Err()
	case !errors.Is(err, workspaces.ErrLost):
		s.settleUnknown(err, req, c.ClaimID)
		return Result{}, err
	}
	return s.standInLine(ctx, req, ids)
}

// cold says whether the claim waits for a workspace that is built for it.
func (r Request) cold() bool { return r.Cold || r.Mode == database.ClaimModeBypass }

func (r Request) claimFor(id uuid.UUID) workspaces.ClaimFor {
	return workspaces.ClaimFor{
		ClaimID: id, PresetID: r.PresetID, UserID: r.UserID, Key: r.Key, Mode: r.Mode, Source: r.Source, LeaseS: r.leaseS(),
	}
}

func (r Request) leaseS() int32 { return int32(r.Lease / time.Second) }

// newIDs are sorted, since that is the order in which they are locked; the first is the request's.
func (s *Service) newIDs(req Request) []uuid.UUID {
	ids := make([]uuid.UUID, max(1, req.Count))
	for i := range ids {
		ids[i] = s.NewID()
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// hit completes the answer of a claim that found a warm workspace: only with a lease is there more to read.
func (s *Service) hit(ctx context.Context, req Request, res Result) (Result, error) {
	if req.Lease <= 0 {
		return res, nil
	}
	reads, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	c, err := claimdb.New(s.Store).ClaimByID(reads, res.ClaimID)
	if err != nil {
		s.settle(req, res.ClaimID)
		return Result{}, xerrors.Errorf("read lease: %w", err)
	}
	res.LeaseUntil = c.LeaseUntil
	return res, nil
}

// takeLast asks once more, for one claim, before it is a miss.
func (s *Service) takeLast(ctx context.Context, c workspaces.ClaimFor) (database.Workspace, error) {
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return s.Writer.ClaimLast(writes, c)
}

// standInLine is for a claim that found nothing running: it takes one out of standby, waits if it may, and else is a miss.
// Claims that are one request come here at once.
func (s *Service) standInLine(ctx context.Context, req Request, ids []uuid.UUID) (Result, error) {
	id := ids[0]
	pool, err := viewsdb.New(s.Store).PoolView(ctx, req.PresetID)
	if err != nil {
		return Result{}, xerrors.Errorf("read pool: %w", err)
	}
	switch {
	case pool.Gone || pool.Deprecated || pool.ProviderDeleted:
		return s.miss(ctx, req, id, pool)
	case pool.Runners:
		return Result{}, &OfRunners{Template: pool.Template, Preset: pool.Preset, Forge: pool.Forge}
	case len(ids) > 1 || pool.Metered:
		return s.claimTogether(ctx, req, ids, pool)
	case pool.Standby && req.Mode != database.ClaimModeBypass:
		res, err := s.takeStandby(ctx, req, req.claimFor(id))
		if !errors.Is(err, workspaces.ErrLost) {
			return res, err
		}
	}
	if !req.mayWait() {
		return s.miss(ctx, req, id, pool)
	}
	writes, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var quota *QuotaExceeded
	err = s.insertWaiting(writes, s.Store, req, ids)
	switch {
	case errors.As(err, &quota):
		return Result{}, err
	case err != nil:
		s.settleUnknown(err, req, id)
		return Result{}, err
	case req.gone(ctx) != nil:
		return Result{}, s.takeBack(ctx, req, id, pool.TemplateID)
	}
	return s.wait(ctx, req, id, pool.TemplateID)
}

func (r Request) mayWait() bool { return r.Mode != database.ClaimModeRequire && r.Wait > 0 }

// insertWaiting has the request's claims stand in line, as far as its user may have so many.
func (s *Service) insertWaiting(ctx context.Context, db database.DBTX, req Request, ids []uuid.UUID) error {
	q := claimdb.New(db)
	rows := req.waiting(ids)
	rows.MaxWaiting, rows.MaxCold = s.MaxWaiting, s.MaxCold
	n, err := q.InsertWaiting(ctx, rows)
	if err != nil {
		return xerrors.Errorf("stand in line: %w", err)
	}
	if n > 0 {
		return nil
	}
	has, err := q.WaitingOf(ctx, req.UserID)
	if err != nil {
		return xerrors.Errorf("count claims that wait: %w", err)
	}
	if s.MaxWaiting > 0 && int(has.Waiting)+len(ids) > int(s.MaxWaiting) {
		return &QuotaExceeded{
			Of: "each user may have %d claims that wait", Has: int(has.Waiting), Asked: len(ids), Limit: int(s.MaxWaiting),
		}
	}
	return &QuotaExceeded{
		Of: "each user may have %d claims that wait for a workspace built for them", Has: int(has.Cold), Asked: len(ids),
		Limit: int(s.MaxCold),
	}
}

// waiting are the rows of the request's claims.
func (r Request) waiting(ids []uuid.UUID) claimdb.InsertWaitingParams {
	return claimdb.InsertWaitingParams{
		Ids: ids, OrganizationID: r.OrganizationID, PresetID: r.PresetID, UserID: r.UserID, IdempotencyKey: database.OrNull(r.Key),
		Mode: r.Mode, WaitS: r.Wait.Seconds(), Cold: r.cold(), LeaseS: database.OrNull(r.leaseS()),
		GroupID: uuid.NullUUID{UUID: ids[0], Valid: len(ids) > 1},
	}
}

func (s *Service) miss(ctx context.Context, req Request, id uuid.UUID, pool viewsdb.PoolViewRow) (Result, error) {
	if req.Key != "" { // nothing is free now, but a request before this one may have had an answer that was lost
		c, err := s.byKey(ctx, req)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return Result{}, err
		case c.State != database.ClaimStateWaiting:
			if res, err := s.resume(ctx, req); !errors.Is(err, pgx.ErrNoRows) {
				return res, err
			}
		}
	}
	why := s.whyMissed(ctx, req, pool)
	err := claimdb.New(s.Store).InsertMiss(ctx, claimdb.InsertMissParams{
		ID: id, OrganizationID: req.OrganizationID, PresetID: req.PresetID, UserID: req.UserID, Mode: req.Mode,
		Reason: why.Text, ReasonCode: string(why.Code),
	})
	if err != nil {
		return Result{}, xerrors.Errorf("record miss: %w", err)
	}
	s.Hints.Cause(ctx, pool.TemplateID)
	s.Hints.Nudge(pool.TemplateID)
	return Result{ClaimID: id, Outcome: database.ClaimOutcomeMiss, Reason: why.Text, ReasonCode: why.Code, Gone: pool.Gone}, nil
}

// byKey is the claim that has the key. pgx.ErrNoRows if there is none, or it has ended without a workspace.
func (s *Service) byKey(ctx context.Context, req Request) (database.Claim, error) {
	c, err := claimdb.New(s.Store).ClaimByKey(ctx, claimdb.ClaimByKeyParams{UserID: req.UserID, IdempotencyKey: database.OrNull(req.Key)})
	if err != nil {
		return c, xerrors.Errorf("read claim by key: %w", err)
	}
	if c.PresetID != req.PresetID {
		return c, ErrKeyReused
	}
	if c.GroupID.Valid != (req.Count > 1) {
		return c, ErrCountChanged
	}
	return c, nil
}

// resume answers with the claim that has the key already. If that waits, this request waits on: the last one decides for
// how long. The claim says first that it was asked for again, so that who made it does not take it back.
func (s *Service) resume(ctx context.Context, req Request) (Result, error) {
	req.again = true
	c, err := s.askedAgain(ctx, req)
	if err != nil {
		return Result{}, err
	}
	if c.State != database.ClaimStateWaiting {
		return s.answer(ctx, c)
	}
	pool, err := viewsdb.New(s.Store).PoolView(ctx, req.PresetID)
	if err != nil {
		return Result{}, xerrors.Errorf("read pool: %w", err)
	}
	if c.GroupID.Valid {
		ids, err := s.idsTogether(ctx, req, c)
		if err != nil {
			return Result{}, err
		}
		return s.waitTogether(ctx, req, ids, pool.TemplateID)
	}
	return s.wait(ctx, req, c.ID, pool.TemplateID)
}

// askedAgain is byKey, once the claim says that it was asked for again.
func (s *Service) askedAgain(ctx context.Context, req Request) (database.Claim, error) {
	for {
		c, err := s.byKey(ctx, req)
		if err != nil {
			return c, err
		}
		n := int64(1)
		switch {
		case c.State == database.ClaimStateWaiting:
			n, err = claimdb.New(s.Store).WaitOn(ctx, claimdb.WaitOnParams{ID: c.ID, WaitS: req.Wait.Seconds()})
		case c.State == database.ClaimStateBound && c.AskedAgainAt == nil && !c.GroupID.Valid:
			n, err = claimdb.New(s.Store).AskAgain(ctx, c.ID)
		}
		if err != nil {
			return c, xerrors.Errorf("ask again for a claim: %w", err)
		}
		if n > 0 {
			return c, nil
		}
		// It is no longer what it was when it was read.
	}
}

// answer is the result of a claim that is no longer waiting.
func (s *Service) answer(ctx context.Context, c database.Claim) (Result, error) {
	if c.GroupID.Valid {
		return s.answerTogether(ctx, c.GroupID.UUID)
	}
	return s.answerOne(ctx, c)
}

func (s *Service) answerOne(ctx context.Context, c database.Claim) (Result, error) {
	res := Result{
		ClaimID: c.ID, Outcome: database.ClaimOutcomeMiss, LeaseUntil: c.LeaseUntil,
		Reason: c.Reason, ReasonCode: prebuilds.Code(c.ReasonCode),
	}
	if c.Outcome != nil {
		res.Outcome = *c.Outcome
	}
	if c.BoundAt != nil {
		res.Waited = c.BoundAt.Sub(c.CreatedAt)
	}
	if !c.WorkspaceID.Valid {
		return res, nil
	}
	w, err := viewsdb.New(s.Store).WorkspaceByID(ctx, c.WorkspaceID.UUID)
	if errors.Is(err, pgx.ErrNoRows) { // claims are kept for longer than deleted workspaces
		return Result{ClaimID: c.ID, Outcome: database.ClaimOutcomeMiss, Reason: longGone, ReasonCode: explain.MissLongGone}, nil
	}
	if err != nil {
		return Result{}, xerrors.Errorf("read claimed workspace: %w", err)
	}
	if c.Incarnation == nil || w.Incarnation != *c.Incarnation { // I1: it is another's now, or about to be
		return Result{ClaimID: c.ID, Outcome: database.ClaimOutcomeMiss, Reason: usedAgain, ReasonCode: explain.MissUsedAgain}, nil
	}
	res.Workspace = &w
	if c.FromStandby && c.State == database.ClaimStateBound {
		return s.withStart(ctx, res)
	}
	return res, nil
}

const usedAgain = "the workspace that this key was given was released and is used again; use another key"

const longGone = "the workspace that this key was given was deleted long ago; use another key"
