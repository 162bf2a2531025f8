package autosize

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/database/autosizedb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// mostClaims that a replay takes in; the latest count.
	mostClaims = 200_000
	// mostSize is the largest size that a search for one tries.
	mostSize = 10_000
	// enoughClaims let a replay speak; with fewer, what little is known is widened by how little it is.
	enoughClaims = 50
	// enoughTime of history is what a recommendation needs: a size for every day can't be told from less than one.
	enoughTime = 24 * time.Hour
	// usual settings, where a preset has none of its own.
	usualTarget = 0.99
)

// Advice is a size for a preset, by its history.
type Advice struct {
	View      viewsdb.SizingViewRow
	Config    *sizing.Config // nil: off
	Target    float64
	Past      Past
	Busiest   int // claims in the busiest hour
	Waits     int // by the model in the busiest hour, where a miss waits
	Cold      int // where it goes cold
	Size      int // recommended
	By        string
	Replayed  sizing.Replay // with the recommended size
	Autosized sizing.Replay // with autosize, under the preset's settings or the usual ones
}

// Past is what claims there were.
type Past struct {
	From, To  time.Time
	Claims    []time.Time // in order
	Hits      int
	Provision time.Duration
	Cut       bool // there were more than a replay takes in
	IdleCost  float64
	history   *sizing.History
}

func (p Past) world(miss sizing.Miss) sizing.World {
	return sizing.World{From: p.From, To: p.To, Claims: p.Claims, Provision: p.Provision, Miss: miss}
}

// Advise recommends a size for a target hit rate, by the last days; a target of 0 is the preset's own, or 99 %.
func (s *Service) Advise(ctx context.Context, preset uuid.UUID, days int, target float64) (Advice, error) {
	view, config, settings, err := s.view(ctx, preset)
	if err != nil {
		return Advice{}, err
	}
	target = cmp.Or(target, settings.Target)
	past, err := s.past(ctx, preset, view, days)
	if err != nil {
		return Advice{}, err
	}
	a := Advice{View: view, Config: config, Target: target, Past: past}
	a.Busiest = past.history.Busiest(past.From, past.To, time.Hour)
	load := float64(a.Busiest) * float64(past.Provision) / float64(time.Hour)
	a.Waits = sizing.SizeFor(sizing.MissWaits, load, target, mostSize)
	a.Cold = sizing.SizeFor(sizing.MissCold, load, target, mostSize)
	world := past.world(sizing.MissWaits)
	switch {
	case len(past.Claims) == 0:
		a.Size, a.By = int(view.Instances), "nothing was claimed: the size stays"
	case past.To.Sub(past.From) < enoughTime:
		a.Size, a.By = int(view.Instances), "there is less than a day of history: the size stays"
	case len(past.Claims) < enoughClaims:
		a.Size = sizing.ThinSize(len(past.Claims), float64(past.To.Sub(past.From))/float64(past.Provision), target, mostSize)
		a.By = "few claims, widened by how little is known"
	default:
		a.Size, _ = world.SmallestStatic(target, mostSize)
		a.By = "the smallest size whose replay reaches the target"
	}
	a.Replayed = world.Replay(sizing.Static(a.Size))
	settings.Target = target
	a.Autosized = world.Replay(sizing.Autosized(settings))
	return a, nil
}

// Replays are the last days again, with other sizes.
type Replays struct {
	View      viewsdb.SizingViewRow
	Past      Past
	Instances int
	Static    sizing.Replay // with so many instances all the time
	Autosized sizing.Replay
}

// Replay plays the last days with a number of instances (below 0: the preset's own), and with autosize.
func (s *Service) Replay(ctx context.Context, preset uuid.UUID, days, instances int, miss sizing.Miss) (Replays, error) {
	view, _, settings, err := s.view(ctx, preset)
	if err != nil {
		return Replays{}, err
	}
	past, err := s.past(ctx, preset, view, days)
	if err != nil {
		return Replays{}, err
	}
	if instances < 0 {
		instances = int(view.Instances)
	}
	world := past.world(miss)
	return Replays{
		View: view, Past: past, Instances: instances,
		Static: world.Replay(sizing.Static(instances)), Autosized: world.Replay(sizing.Autosized(settings)),
	}, nil
}

func (s *Service) view(ctx context.Context, preset uuid.UUID) (
	view viewsdb.SizingViewRow, config *sizing.Config, settings sizing.Settings, err error,
) {
	view, err = viewsdb.New(s.Store).SizingView(ctx, preset)
	if err != nil {
		return view, nil, settings, xerrors.Errorf("read preset: %w", err)
	}
	settings = sizing.Settings{Min: 1, Max: mostSize, Target: usualTarget, Location: time.UTC}
	if view.Autosize == nil {
		return view, nil, settings, nil
	}
	c, settings, err := decode(view.Autosize)
	return view, &c, settings, err
}

// past reads the claims of the last days, as they came.
func (s *Service) past(ctx context.Context, preset uuid.UUID, view viewsdb.SizingViewRow, days int) (Past, error) {
	p := Past{From: view.Now.AddDate(0, 0, -days), To: view.Now, IdleCost: view.IdleCostPerHour}
	if view.CreatedAt.After(p.From) {
		p.From = view.CreatedAt
	}
	claims, err := autosizedb.New(s.Store).ClaimsSince(ctx, autosizedb.ClaimsSinceParams{PresetID: preset, Since: p.From, Most: mostClaims})
	if err != nil {
		return p, xerrors.Errorf("read claims: %w", err)
	}
	slices.Reverse(claims)
	if len(claims) == mostClaims {
		p.From, p.Cut = claims[0].CreatedAt, true
	}
	p.history = sizing.NewHistory(p.From)
	for _, c := range claims {
		p.Claims = append(p.Claims, c.CreatedAt)
		p.history.Add(c.CreatedAt, sizing.Bucket{Claims: 1})
		if c.Hit {
			p.Hits++
		}
	}
	rows, err := viewsdb.New(s.Store).ClaimHistory(ctx, viewsdb.ClaimHistoryParams{PresetID: preset, Since: p.From})
	if err != nil {
		return p, xerrors.Errorf("read history: %w", err)
	}
	counted := beginning(rows, view.Now)
	fill(counted, rows)
	p.Provision, err = s.provisionTime(ctx, preset, counted, view.Now)
	return p, err
}

// provisionTime is how long a prebuild takes by what was counted; where nothing was, since the preset or the server is new, by
// the prebuilds that are there.
func (s *Service) provisionTime(
	ctx context.Context, preset uuid.UUID, counted *sizing.History, now time.Time,
) (time.Duration, error) {
	if d, measured := counted.MeasuredProvisionTime(now); measured {
		return d, nil
	}
	latest, err := viewsdb.New(s.Store).ProvisionTime(ctx, preset)
	if err != nil {
		return 0, xerrors.Errorf("read times of creates: %w", err)
	}
	if latest.Measured == 0 {
		return sizing.DefaultProvisionTime, nil
	}
	return max(time.Duration(latest.MedianS*float64(time.Second)), time.Millisecond), nil // it is divided by
}
