package autosize

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/autosizedb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	every = time.Minute
	// enough is how long ago a step must be for the next one: replicas do not add up.
	enough = 45 * time.Second
	// recount is how far back buckets are counted again: claims that wait get their outcome, slow commits arrive.
	recount = 15 * time.Minute
	// known is how much history a size is computed from: four weeks, and some room around "the same time".
	known = 29 * 24 * time.Hour
)

// Options of a Service.
type Options struct {
	Store *database.Store
	Clock quartz.Clock
	Log   slog.Logger
	Hints *hints.Hints
}

// Service counts and computes.
type Service struct {
	Options

	mu    sync.Mutex // one step at a time
	cache map[uuid.UUID]*cached
}

// cached is the history of a preset as far as it was read.
type cached struct {
	history *sizing.History
	read    time.Time
}

// New makes a service.
func New(o Options) *Service {
	return &Service{Options: o, cache: map[uuid.UUID]*cached{}}
}

// Run steps about once a minute until ctx ends.
func (s *Service) Run(ctx context.Context) {
	lease.Loop{
		Clock: s.Clock, Log: s.Log, What: "size pools", Tags: []string{"autosize"}, Later: true,
		Pause: func() time.Duration { return every - rand.N(every/12) },
	}.Run(ctx, func(ctx context.Context) error {
		_, err := s.Step(ctx)
		return err
	})
}

// Result of a step.
type Result struct {
	Skipped bool // another replica is at it, or was a moment ago
	Sized   int  // pools
	Changed int  // pools whose size is another one
}

// Step counts and computes once.
func (s *Service) Step(ctx context.Context) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var result Result
	var nudges []uuid.UUID
	err := s.Store.InTx(ctx, database.TxOptions{Label: "size pools"}, func(ctx context.Context, tx pgx.Tx) error {
		q := autosizedb.New(tx)
		result, nudges = Result{}, nil
		locked, err := q.TryAutosizeLock(ctx)
		if err != nil {
			return xerrors.Errorf("take lock: %w", err)
		}
		if !locked {
			result.Skipped = true
			return nil
		}
		progress, err := q.AutosizeProgress(ctx)
		if err != nil {
			return xerrors.Errorf("read progress: %w", err)
		}
		now := progress.Now
		if last := progress.ComputedAt; last != nil && !last.After(now) && now.Sub(*last) < enough {
			result.Skipped = true
			return nil
		}
		if err := count(ctx, tx, progress.CountedThrough, now); err != nil {
			return err
		}
		if err := sample(ctx, tx, progress.SampledAt, now); err != nil {
			return err
		}
		nudges, result, err = s.compute(ctx, tx, now)
		return err
	})
	if err != nil {
		s.cache = map[uuid.UUID]*cached{} // it may hold what was rolled back
		return Result{}, err              //nolint:wrapcheck // InTx says what it was
	}
	for _, template := range nudges {
		s.Hints.Nudge(template)
	}
	return result, nil
}

// count brings claim_history up to now.
func count(ctx context.Context, db database.DBTX, through *time.Time, now time.Time) error {
	q := autosizedb.New(db)
	since := now.Add(-known)
	if through != nil && through.Add(-recount).After(since) {
		since = through.Add(-recount)
	}
	since = since.UTC().Truncate(sizing.BucketLength) // whole buckets, for a part would replace the whole
	if err := q.CountClaims(ctx, autosizedb.CountClaimsParams{Since: since, Through: now}); err != nil {
		return xerrors.Errorf("count claims: %w", err)
	}
	if err := q.CountProvisions(ctx, since); err != nil {
		return xerrors.Errorf("count provisions: %w", err)
	}
	err := q.StoreAutosizeProgress(ctx, autosizedb.StoreAutosizeProgressParams{CountedThrough: &now, ComputedAt: &now})
	if err != nil {
		return xerrors.Errorf("store progress: %w", err)
	}
	return nil
}

// sample notes what pools look like, once in each bucket (see migration 00022). Nothing that is decided depends on it.
func sample(ctx context.Context, db database.DBTX, last *time.Time, now time.Time) error {
	q := autosizedb.New(db)
	bucket := now.UTC().Truncate(sizing.BucketLength)
	if last != nil && !last.Before(bucket) && !last.After(now) {
		return nil
	}
	if _, err := q.SamplePresets(ctx, bucket); err != nil {
		return xerrors.Errorf("sample pools: %w", err)
	}
	if err := q.StoreSamplesTakenAt(ctx, &now); err != nil {
		return xerrors.Errorf("store time of samples: %w", err)
	}
	return nil
}

// compute sizes each pool that has autosize on. One that cannot be sized is logged, and stops no other.
func (s *Service) compute(ctx context.Context, db database.DBTX, now time.Time) ([]uuid.UUID, Result, error) {
	presets, err := autosizedb.New(db).AutosizedPresets(ctx)
	if err != nil {
		return nil, Result{}, xerrors.Errorf("read presets: %w", err)
	}
	var result Result
	var nudges []uuid.UUID
	still := make(map[uuid.UUID]*cached, len(presets))
	for _, p := range presets {
		config, settings, err := decode(p.Autosize)
		if err != nil {
			s.Log.Error(ctx, "size pool", slog.F("preset", p.ID), slog.Error(err))
			continue
		}
		c, err := s.history(ctx, db, p.ID, now)
		if err != nil {
			return nil, Result{}, err
		}
		still[p.ID] = c
		var state sizing.State
		if p.State != nil {
			if err := json.Unmarshal(p.State, &state); err != nil {
				return nil, Result{}, xerrors.Errorf("decode state of preset %s: %w", p.ID, err)
			}
		}
		r, state := sizing.Step(settings, state, c.history, now, config.Mode == sizing.ModeApply)
		r = r.WithAnnounced(settings, int(p.Announced))
		if err := store(ctx, db, p.ID, r, state, now); err != nil {
			return nil, Result{}, err
		}
		result.Sized++
		if r.Size != int(p.Size) {
			result.Changed++
			s.Log.Debug(ctx, "sized pool", slog.F("preset", p.ID), slog.F("size", r.Size), slog.F("reason", r.Reason))
			if config.Mode == sizing.ModeApply {
				nudges = append(nudges, p.TemplateID)
			}
		}
	}
	s.cache = still
	return nudges, result, nil
}

func store(
	ctx context.Context, db database.DBTX, preset uuid.UUID, r sizing.Recommendation, state sizing.State, now time.Time,
) error {
	encoded, err := json.Marshal(state)
	if err != nil {
		return xerrors.Errorf("encode state: %w", err)
	}
	err = autosizedb.New(db).StorePresetSize(ctx, autosizedb.StorePresetSizeParams{
		PresetID: preset, Size: narrow(r.Size), Forecast: narrow(r.Forecast), Recent: narrow(r.Recent), Boost: r.Boost,
		Reason: r.Reason, Unattainable: r.Unattainable, State: encoded, ComputedAt: now,
	})
	if err != nil {
		return xerrors.Errorf("store size: %w", err)
	}
	return nil
}

func decode(raw json.RawMessage) (sizing.Config, sizing.Settings, error) {
	var config sizing.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		return config, sizing.Settings{}, xerrors.Errorf("decode autosize: %w", err)
	}
	settings, err := config.Settings()
	return config, settings, err
}

// history is the preset's, up to now: read once, and from then on only what is new.
func (s *Service) history(ctx context.Context, db database.DBTX, preset uuid.UUID, now time.Time) (*cached, error) {
	c := s.cache[preset]
	since := now.Add(-known)
	if c != nil && c.history.Since().After(since.Add(-known)) && !c.read.After(now) { // else it grew too long, or time went back
		since = c.read.Add(-recount)
	} else {
		c = nil
	}
	rows, err := viewsdb.New(db).ClaimHistory(ctx, viewsdb.ClaimHistoryParams{
		PresetID: preset, Since: since.UTC().Truncate(sizing.BucketLength),
	})
	if err != nil {
		return nil, xerrors.Errorf("read history: %w", err)
	}
	if c == nil {
		c = &cached{history: beginning(rows, now)}
	}
	fill(c.history, rows)
	c.read = now
	return c, nil
}

// beginning is an empty history since the first thing known.
func beginning(rows []viewsdb.ClaimHistoryRow, now time.Time) *sizing.History {
	if len(rows) > 0 {
		now = rows[0].Bucket
	}
	return sizing.NewHistory(now)
}

func fill(h *sizing.History, rows []viewsdb.ClaimHistoryRow) {
	for _, row := range rows {
		h.Put(row.Bucket, sizing.Bucket{
			Claims: int(row.Claims), Hits: int(row.Hits), Provisions: int(row.Provisions), ProvisionSeconds: row.ProvisionS,
		})
	}
}

// narrow fits a number of prebuilds into its column; the settings keep them far below.
func narrow(n int) int32 { return int32(min(max(n, 0), 1<<30)) }
