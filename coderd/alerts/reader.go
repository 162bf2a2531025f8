package alerts

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// fresh is how long a snapshot is good for.
	fresh = 5 * time.Second
	// claimedFresh is how long the count of claimed workspaces is.
	claimedFresh = time.Minute
	readTimeout  = 5 * time.Second
)

// Snapshot is what was so at one time.
type Snapshot struct {
	ReadAt    time.Time     // this process's clock
	Staleness time.Duration // at ReadAt: since the last full pass that was committed began
	NoPass    bool          // none was, ever; Staleness means nothing
	Presets   []Preset
	Jobs      []alertsdb.GaugeJobsRow
	Pauses    []alertsdb.GaugePausesRow

	Inventories []viewsdb.InventoriesRow // with the breakers
	Findings    []alertsdb.GaugeFindingsRow
	Missing     []alertsdb.MissingClaimedRow // claimed workspaces that are not at their provider
	Refused     []Refused                    // claimed workspaces that would not be created or started now
	Judged      bool                         // Refused is known; false before the first look that succeeded

	Forges  []alertsdb.GaugeForgesRow
	Runners []alertsdb.GaugeRunnersRow
}

// Preset is one preset with what its last pass said.
type Preset struct {
	ID             uuid.UUID
	OrganizationID uuid.UUID
	Organization   string
	Template       string
	Preset         string
	Counts         prebuilds.Counts
	Claimed        int
	ToCreate       int // the last pass's plan
	ToDelete       int // the last pass's drains and cancels
	FailureStreak  int
	HardLimit      string // why creation stopped (C8); empty: it did not
	Unattainable   string // why autosize does not reach its target; empty: it does
	Error          bool   // the last pass could not reconcile it
}

// Reader reads snapshots. It is safe for concurrent use: who comes while another reads waits for that one's.
type Reader struct {
	store   *database.Store
	clock   quartz.Clock
	refuses Refuses

	mu        sync.Mutex // held while reading
	last      *Snapshot
	claimed   map[uuid.UUID]int
	claimedAt time.Time
	refused   []Refused
	judged    bool
	refusedAt time.Time // of the last look, whether it succeeded or not; zero: never looked
}

// NewReader returns a Reader that has read nothing yet.
func NewReader(store *database.Store, clock quartz.Clock, refuses Refuses) *Reader {
	return &Reader{store: store, clock: clock, refuses: refuses}
}

// Read returns what was so at most a few seconds ago. The snapshot is shared: it must not be changed.
func (r *Reader) Read(ctx context.Context) (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now("gauges", "read")
	if r.last != nil && now.Sub(r.last.ReadAt) < fresh {
		return r.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if r.claimed == nil || now.Sub(r.claimedAt) >= claimedFresh {
		if err := r.countClaimed(ctx, now); err != nil {
			return nil, err
		}
	}
	if r.refusedAt.IsZero() || now.Sub(r.refusedAt) >= refusedFresh {
		// A look that fails is not repeated at once: on a large fleet it may take too long each time, and everything else
		// that a snapshot has must be read all the same.
		r.refusedAt = now
		if err := r.judgeClaimed(ctx); err != nil {
			return nil, err
		}
	}
	snap, err := r.read(ctx, now)
	if err != nil {
		return nil, err
	}
	r.last = snap
	return snap, nil
}

func (r *Reader) countClaimed(ctx context.Context, now time.Time) error {
	rows, err := alertsdb.New(r.store).GaugeClaimed(ctx)
	if err != nil {
		return xerrors.Errorf("count claimed workspaces: %w", err)
	}
	r.claimed, r.claimedAt = make(map[uuid.UUID]int, len(rows)), now
	for _, row := range rows {
		r.claimed[row.PresetID] = int(row.Claimed)
	}
	return nil
}

func (r *Reader) read(ctx context.Context, now time.Time) (*Snapshot, error) {
	q := alertsdb.New(r.store)
	snap := &Snapshot{ReadAt: now, Refused: r.refused, Judged: r.judged}
	pass, err := viewsdb.New(r.store).LastPass(ctx)
	if err != nil {
		return nil, xerrors.Errorf("read last pass: %w", err)
	}
	if pass.FullBeganAt == nil {
		snap.NoPass = true
	} else {
		snap.Staleness = pass.Now.Sub(*pass.FullBeganAt)
	}
	rows, err := q.GaugePresets(ctx)
	if err != nil {
		return nil, xerrors.Errorf("read presets: %w", err)
	}
	snap.Presets = make([]Preset, 0, len(rows))
	for _, row := range rows {
		p, err := presetOf(row)
		if err != nil {
			return nil, err
		}
		p.Claimed = r.claimed[p.ID]
		snap.Presets = append(snap.Presets, p)
	}
	snap.Jobs, err = then(ctx, err, "count jobs", q.GaugeJobs)
	snap.Pauses, err = then(ctx, err, "read pauses", q.GaugePauses)
	snap.Inventories, err = then(ctx, err, "read inventories", viewsdb.New(r.store).Inventories)
	snap.Findings, err = then(ctx, err, "count findings", q.GaugeFindings)
	snap.Missing, err = then(ctx, err, "read missing workspaces", q.MissingClaimed)
	snap.Forges, err = then(ctx, err, "read forges", q.GaugeForges)
	snap.Runners, err = then(ctx, err, "count runners", q.GaugeRunners)
	return snap, err
}

// then reads some rows, unless something before it failed.
func then[R any](ctx context.Context, err error, what string, read func(context.Context) ([]R, error)) ([]R, error) {
	if err != nil {
		return nil, err
	}
	rows, err := read(ctx)
	if err != nil {
		return nil, xerrors.Errorf(what+": %w", err)
	}
	return rows, nil
}

func presetOf(row alertsdb.GaugePresetsRow) (Preset, error) {
	p := Preset{
		ID: row.ID, OrganizationID: row.OrganizationID, Organization: row.Organization, Template: row.Template,
		Preset: row.Preset, FailureStreak: int(row.FailureStreak), Error: row.HasError,
		Unattainable: row.Unattainable,
	}
	if row.Counts == nil { // no pass has seen it yet
		return p, nil
	}
	var ledger prebuilds.Ledger
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{row.Counts, &p.Counts}, {row.Ledger, &ledger}} {
		if err := json.Unmarshal(part.raw, part.into); err != nil {
			return p, xerrors.Errorf("decode status of preset %s/%s: %w", row.Template, row.Preset, err)
		}
	}
	p.ToCreate, p.ToDelete = ledger.Create, ledger.Going()
	if why, stopped := ledger.HardLimit(); stopped {
		p.HardLimit = explain.Text(why)
	}
	return p, nil
}
