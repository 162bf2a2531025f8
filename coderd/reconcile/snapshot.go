package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// snapshot is the planner's snapshot with what apply needs beside it.
type snapshot struct {
	prebuilds.Snapshot
	digests map[uuid.UUID][]byte // of the status stored last
	spent   map[string]bool      // providers of which a nudge pass spends the headroom of the full one before
}

// snapshot reads everything at the transaction's one instant. Its cost is linear in presets and unclaimed workspaces.
func (r *Reconciler) snapshot(ctx context.Context, db database.DBTX, now time.Time, templates []uuid.UUID) (snapshot, error) {
	q := reconciledb.New(db)
	snap := snapshot{
		Snapshot: prebuilds.Snapshot{Now: now, Providers: map[string]prebuilds.Limits{}, Pauses: prebuilds.Pauses{}},
		digests:  map[uuid.UUID][]byte{}, spent: map[string]bool{},
	}
	presets, unclaimed, err := readPools(ctx, db, templates)
	if err != nil {
		return snap, err
	}
	stopped, err := stoppedForges(ctx, db, presets)
	if err != nil {
		return snap, err
	}
	pauses, err := q.SnapshotPauses(ctx)
	if err != nil {
		return snap, xerrors.Errorf("read pauses: %w", err)
	}
	providers, err := q.SnapshotProviders(ctx, reconciledb.SnapshotProvidersParams{IsFull: templates == nil, TemplateIds: templates})
	if err != nil {
		return snap, xerrors.Errorf("read providers: %w", err)
	}

	waiting, err := q.SnapshotCold(ctx)
	if err != nil {
		return snap, xerrors.Errorf("read cold claims: %w", err)
	}

	cold := map[uuid.UUID][]time.Time{}
	for _, c := range waiting {
		cold[c.PresetID] = append(cold[c.PresetID], c.CreatedAt)
	}
	for _, p := range pauses {
		key := prebuilds.PauseKey{Scope: prebuilds.PauseScope(p.Scope), Target: p.Target}
		snap.Pauses[key] = prebuilds.Pause{Reason: p.Reason, Until: database.OrZero(p.ExpiresAt)}
	}
	breakers, deleted, givenUp := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, p := range providers {
		snap.Providers[p.Name] = limits(p, now)
		snap.spent[p.Name] = p.Maximum > 0 && !p.Counted && p.Headroom != nil
		breakers[p.Name] = p.Breaker
		deleted[p.Name], givenUp[p.Name] = p.Deleted, p.DeleteForced
	}
	snap.Presets = make([]prebuilds.Preset, 0, len(presets))
	minRemaining := make(map[uuid.UUID]time.Duration, len(presets))
	for _, row := range presets {
		p := toPreset(row, stopped)
		p.Cold = cold[p.ID]
		minRemaining[p.ID] = time.Duration(row.MinRemainingS) * time.Second
		p.Schedule, p.Fault = r.schedules.of(row.Schedule)
		p.Breaker = breakers[row.Provider]
		if deleted[row.Provider] && p.Retired == "" {
			p.Retired, p.Desired, p.Autosized = prebuilds.ProviderDeleted, 0, false
		}
		if givenUp[row.Provider] { // deletes there go on (G5)
			p.Breaker = ""
		}
		snap.Presets = append(snap.Presets, p)
		snap.digests[p.ID] = row.Digest
	}
	busy, err := atJobs(ctx, db, presets)
	if err != nil {
		return snap, err
	}
	snap.Workspaces = make([]prebuilds.Workspace, 0, len(unclaimed))
	for _, row := range unclaimed {
		w := toWorkspace(row, minRemaining[row.PresetID])
		w.Busy = busy[runner{row.ID, row.Incarnation}]
		w.GivenUp = givenUp[row.Provider]
		snap.Workspaces = append(snap.Workspaces, w)
	}
	return snap, nil
}

func readPools(ctx context.Context, db database.DBTX, templates []uuid.UUID) (
	presets []reconciledb.SnapshotPresetsRow, workspaces []reconciledb.SnapshotWorkspacesRow, err error,
) {
	q := reconciledb.New(db)
	if templates == nil {
		if presets, err = q.SnapshotPresets(ctx); err != nil {
			return nil, nil, xerrors.Errorf("read presets: %w", err)
		}
		if workspaces, err = q.SnapshotWorkspaces(ctx); err != nil {
			return nil, nil, xerrors.Errorf("read workspaces: %w", err)
		}
		return presets, workspaces, nil
	}
	some, err := q.SnapshotPresetsOf(ctx, templates)
	if err != nil {
		return nil, nil, xerrors.Errorf("read presets: %w", err)
	}
	for _, p := range some {
		presets = append(presets, reconciledb.SnapshotPresetsRow(p))
	}
	theirs, err := q.SnapshotWorkspacesOf(ctx, templates)
	if err != nil {
		return nil, nil, xerrors.Errorf("read workspaces: %w", err)
	}
	for _, w := range theirs {
		workspaces = append(workspaces, reconciledb.SnapshotWorkspacesRow(w))
	}
	return presets, workspaces, nil
}

func toPreset(row reconciledb.SnapshotPresetsRow, stopped map[uuid.UUID]reconciledb.SnapshotStoppedForgesRow) prebuilds.Preset {
	p := prebuilds.Preset{
		ID: row.ID, Template: row.Template, Name: row.Name, Provider: row.Provider, PoolKey: row.PoolKey,
		Priority: int(row.Priority), KeepOutdated: row.KeepOutdated, Waiting: int(row.Waiting),
		FailureStreak: int(row.FailureStreak), LastFailure: row.Failure,
		MaxSurge: prebuilds.Share(row.MaxSurge), MaxUnavailable: prebuilds.Share(row.MaxUnavailable),
		ProgressDeadline: time.Duration(row.ProgressDeadlineS) * time.Second, RolloutAt: row.RolloutAt,
		Unproven: row.Unproven, TemplateID: row.TemplateID, AllMachines: row.AllMachines, Runner: toRunner(row, stopped),
		Running: prebuilds.Share(database.OrZero(row.StandbyRunning)), LastFailureAt: database.OrZero(row.FailureAt),
		CreatesInFlight:         int(database.OrZero(row.CreatesInFlight)),
		TemplateCreatesInFlight: int(database.OrZero(row.TemplateCreatesInFlight)),
	}
	if row.FailureAt != nil && row.FailingSince != nil {
		p.FailuresMayPass = prebuilds.MayPass(int(row.FailuresPermanent), *row.FailingSince, *row.FailureAt)
	}
	if row.TtlS != nil {
		p.RenewAhead = prebuilds.RenewAhead(time.Duration(*row.TtlS)*time.Second, time.Duration(row.BootTimeoutS)*time.Second)
	}
	switch { // C4
	case row.TemplateDeletedAt != nil:
		p.Retired = prebuilds.TemplateDeleted
	case row.DeletedAt != nil:
		p.Retired = prebuilds.PresetRemoved
	case row.TemplateDeprecatedAt != nil:
		p.Retired = prebuilds.TemplateDeprecated
	case stopped[row.ForgeEntityID.UUID].Drains: // P1
		p.Retired = prebuilds.ForgeDrained
	case row.Instances != nil:
		p.Desired = prebuilds.Size(int(*row.Instances), int(row.Autosized))
		p.Autosized = row.Autosized >= 0
	}
	return p
}

func toWorkspace(row reconciledb.SnapshotWorkspacesRow, minRemaining time.Duration) prebuilds.Workspace {
	w := prebuilds.Workspace{
		ID: row.ID, PresetID: row.PresetID, PoolKey: row.PoolKey, Provider: row.Provider,
		State: prebuilds.State(row.State), Incarnation: row.Incarnation, CreatedAt: row.CreatedAt,
		HasIntent: row.HasIntent, Leased: row.Leased, WasReady: row.WasReady, Moving: row.Moving, Gone: row.Gone,
	}
	if row.ExpiresAt != nil {
		w.ExpiresAt = row.ExpiresAt.Add(-minRemaining)
	}
	return w
}

// limits of a provider. A nudge pass does not count what lives there while the headroom that the last pass left is not
// spent; and where there is none yet it creates nothing against a maximum.
func limits(p reconciledb.SnapshotProvidersRow, now time.Time) prebuilds.Limits {
	l := prebuilds.Limits{
		Maximum: int(p.Maximum), Live: int(p.Live), Chunk: int(p.Chunk), Reserves: p.Reserves, Stale: p.Stale,
		Available: int(p.Available),
	}
	if p.CreateEveryS != nil {
		l.Rate = prebuilds.Rate{
			Every: time.Duration(*p.CreateEveryS * float64(time.Second)), Burst: int(p.CreateBurst), FullAt: database.OrZero(p.FullAt),
		}.At(now)
	}
	if !p.Counted && l.Maximum > 0 {
		l.Live = l.Maximum
		if p.Headroom != nil {
			l.Live -= int(*p.Headroom)
		}
	}
	return l
}
