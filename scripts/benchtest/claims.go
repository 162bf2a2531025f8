package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// newID makes ids as the server does.
func newID() uuid.UUID { return workspaces.NewID() }

// claimer claims one workspace of a pool; uuid.Nil is a miss.
type claimer func(ctx context.Context, p pool) (uuid.UUID, error)

// desk is what claims are made at: a claim service on the fleet's store, and the API before it. Nothing refills the
// pools, so that a figure is that of claims alone; group `mixed` has everything running.
type desk struct {
	*fleet
	service *claim.Service
	server  *http.Server
	address string
	nudges  atomic.Int64
}

func (f *fleet) open() (*desk, error) {
	d := &desk{fleet: f}
	clock, log, reg := quartz.NewReal(), slog.Make(), prometheus.NewRegistry()
	writer := workspaces.New(f.store, newID, "bench")
	d.service = claim.New(claim.Options{
		Store: f.store, Writer: writer, Clock: clock, Log: log, Registerer: reg, NewID: newID,
		Nudge: func(...uuid.UUID) { d.nudges.Add(1) }, Publish: func(uuid.UUID) {},
	})
	registry := provider.NewRegistry(map[string]provider.Factory{}, database.InTransaction)
	d.server = &http.Server{
		Handler: api.New(api.Options{
			Store: f.store, Auth: auth.NewAuthenticator(f.store, clock), Claims: d.service, Workspaces: writer,
			Templates: &templates.Service{Store: f.store, NewProvider: registry.New}, Providers: registry,
			Instances: instance.New(instance.Options{
				Store: f.store, Writer: writer, Clock: clock, Log: log, Registerer: reg, URL: "http://bench",
				Nudge: func(...uuid.UUID) {}, Wake: func() {}, Hint: func(context.Context) {},
			}),
			Nudge: func(...uuid.UUID) {}, Ready: func(context.Context) []string { return nil },
			Metrics: http.NotFoundHandler(), Clock: clock, Log: log, Version: "bench",
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.address = listener.Addr().String()
	go func() { _ = d.server.Serve(listener) }()
	return d, nil
}

func (d *desk) close() {
	_ = d.server.Close()
	d.service.Close()
	d.drop()
}

// store claims without HTTP.
func (d *desk) store(int) (claimer, func(), error) {
	return func(ctx context.Context, p pool) (uuid.UUID, error) {
		res, err := d.service.Claim(ctx, claim.Request{
			UserID: d.owner, Source: "bench", OrganizationID: auth.DefaultOrganizationID, PresetID: p.preset,
			Mode: database.ClaimModeRequire,
		})
		if err != nil || res.Workspace == nil {
			return uuid.Nil, err
		}
		return res.Workspace.ID, nil
	}, func() {}, nil
}

// overHTTP claims as a client does, each over a connection of its own.
func (d *desk) overHTTP(int) (claimer, func(), error) {
	c, err := dialHTTP(d.address, d.token.Reveal())
	if err != nil {
		return nil, nil, err
	}
	return c.claim, c.close, nil
}

// measure runs clients for a window, closed loop: each claims again when it was answered. A miss ends the window.
func (d *desk) measure(ctx context.Context, b *bench, connect func(int) (claimer, func(), error), clients int) (sample, error) {
	if err := b.checkpoint(ctx); err != nil {
		return sample{}, err
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		took   []time.Duration
		ids    []uuid.UUID
		failed error
		turn   atomic.Int64
		over   atomic.Bool
	)
	claimers := make([]claimer, clients)
	for i := range claimers {
		c, leave, err := connect(i)
		if err != nil {
			return sample{}, err
		}
		defer leave()
		claimers[i] = c
	}
	before, began := b.processor(), time.Now()
	until := began.Add(b.window())
	for _, claim := range claimers {
		wg.Go(func() {
			mine, got := make([]time.Duration, 0, 10_000), make([]uuid.UUID, 0, 10_000)
			var err error
			for now := time.Now(); now.Before(until) && !over.Load(); {
				var id uuid.UUID
				id, err = claim(ctx, d.pools[int(turn.Add(1))%len(d.pools)])
				if err != nil || id == uuid.Nil {
					over.Store(true)
					break
				}
				got = append(got, id)
				end := time.Now()
				mine, now = append(mine, end.Sub(now)), end
			}
			mu.Lock()
			defer mu.Unlock()
			took, ids = append(took, mine...), append(ids, got...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	lasted, spent := time.Since(began), b.processor().since(before)
	if failed != nil {
		return sample{}, failed
	}
	if err := d.distinct(ids); err != nil {
		return sample{}, err
	}
	n := time.Duration(len(ids))
	if n == 0 {
		return sample{}, fmt.Errorf("every claim was a miss")
	}
	return sample{
		perSecond: float64(n) / lasted.Seconds(), processor: (spent.here + spent.server) / n, ours: spent.here / n,
		p50: quantile(took, 0.5), p99: quantile(took, 0.99),
	}, nil
}

// distinct checks that none of them was handed out before (I1).
func (d *desk) distinct(ids []uuid.UUID) error {
	for _, id := range ids {
		if d.seen[id] {
			return fmt.Errorf("workspace %s was claimed twice", id)
		}
		d.seen[id] = true
	}
	return nil
}

// claims are the figures of closed loops beside simple updates with as many clients.
func claims(ctx context.Context, b *bench) error {
	y, dropYard, err := b.yardstick(ctx)
	if err != nil {
		return err
	}
	defer dropYard()
	big := 200_000
	if b.quick {
		big = 40_000
	}
	base := map[string]float64{} // claims per second of the figures that others are compared with
	for _, c := range []struct {
		name          string
		pools, beside int
		clients       []int
	}{
		{"", 1, 0, []int{1, 8, 32}},
		{".1000-pools", 1000, 0, []int{32}},
		{".beside-20k", 1, 20_000, []int{32}},
		{fmt.Sprintf(".beside-%dk", big/1000), 1, big, []int{32}},
	} {
		f, err := b.fleet(ctx, c.pools, 0)
		if err != nil {
			return err
		}
		d, err := f.open()
		if err != nil {
			return err
		}
		if err := f.addClaimed(ctx, c.beside); err != nil {
			return err
		}
		for _, clients := range c.clients {
			if err := d.compare(ctx, b, y, c.name, clients, base); err != nil {
				return err
			}
		}
		d.close()
	}
	return nil
}

// compare takes turns: store, HTTP, simple updates, and again.
func (d *desk) compare(ctx context.Context, b *bench, y *yardstick, name string, clients int, base map[string]float64) error {
	var store, overHTTP, yard []sample
	for round := range b.rounds {
		for _, side := range []struct {
			connect func(int) (claimer, func(), error)
			into    *[]sample
		}{{d.store, &store}, {d.overHTTP, &overHTTP}} {
			expected := 3000.0 * float64(clients)
			if clients > 4 {
				expected = 12_000
			}
			if n := len(*side.into); n > 0 {
				expected = 1.5 * (*side.into)[n-1].perSecond
			}
			if err := d.stock(ctx, int(expected*b.window().Seconds())); err != nil {
				return err
			}
			if round == 0 {
				if err := d.settle(ctx); err != nil {
					return err
				}
			}
			s, err := d.measure(ctx, b, side.connect, clients)
			if err != nil {
				return err
			}
			*side.into = append(*side.into, s)
		}
		s, err := y.measure(ctx, b, clients, 0)
		if err != nil {
			return err
		}
		yard = append(yard, s)
	}
	b.su[clients] = append(b.su[clients], yard...)
	su := fmt.Sprintf("%s-%d", y.name(), clients)
	for _, side := range []struct {
		name    string
		samples []sample
	}{{"store", store}, {"http", overHTTP}} {
		full := fmt.Sprintf("claims.%s%s.%d", side.name, name, clients)
		line(full, middle(side.samples, perSecond), "/s", middle(yard, perSecond), su)
		line(full+".processor", middle(side.samples, micros), "us", middle(yard, micros), su)
		line(full+".here", middle(side.samples, func(s sample) float64 { return float64(s.ours) / 1000 }), "us",
			middle(yard, func(s sample) float64 { return float64(s.ours) / 1000 }), su)
		line(full+".p50", middle(side.samples, p50), "ms", middle(yard, p50), su)
		line(full+".p99", middle(side.samples, p99), "ms", middle(yard, p99), su)
		if of := fmt.Sprintf("claims.%s.%d", side.name, clients); name == "" {
			base[of], base[of+".processor"] = middle(side.samples, perSecond), middle(side.samples, micros)
		} else {
			line(full+".beside-one-pool", middle(side.samples, perSecond), "/s", base[of], of)
			line(full+".processor.beside-one-pool", middle(side.samples, micros), "us", base[of+".processor"], of)
		}
	}
	return nil
}

// tune is one figure without a yardstick.
func tune(ctx context.Context, b *bench) error {
	f, err := b.fleet(ctx, 1, 0)
	if err != nil {
		return err
	}
	d, err := f.open()
	if err != nil {
		return err
	}
	defer d.close()
	if err := f.addClaimed(ctx, 50_000); err != nil {
		return err
	}
	var samples []sample
	for range b.rounds {
		if err := d.stock(ctx, int(12_000*b.window().Seconds())); err != nil {
			return err
		}
		if err := d.settle(ctx); err != nil {
			return err
		}
		s, err := d.measure(ctx, b, d.store, 32)
		if err != nil {
			return err
		}
		samples = append(samples, s)
		fmt.Fprintf(os.Stderr, "# %.0f/s, %s of processor per claim, %s of it here\n", s.perSecond, s.processor, s.ours)
	}
	line("tune.store.32", middle(samples, perSecond), "/s", 0, "")
	line("tune.store.32.processor", middle(samples, micros), "us", 0, "")
	return nil
}
