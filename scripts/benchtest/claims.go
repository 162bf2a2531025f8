package main

import (
	"context"
	"fmt"
	"os"
)

// setting is in what surroundings claims are made.
type setting struct {
	name          string // of its lines
	pools, beside int
	image         *image
	samples       map[side][]sample
	rates, costs  map[side][]float64 // beside what the setting is compared with, turn by turn
}

// claims are the figures of closed loops beside simple updates with as many clients.
func claims(ctx context.Context, b *bench) {
	y, dropYard := b.yardstick(ctx)
	defer dropYard()
	big := sized(b, 200_000, 40_000)
	base := &setting{pools: 1}
	others := []*setting{
		{name: ".1000-pools", pools: 1000},
		{name: ".beside-20k", pools: 1, beside: 20_000},
		{name: fmt.Sprintf(".beside-%dk", big/1000), pools: 1, beside: big},
	}
	for _, s := range append([]*setting{base}, others...) {
		s.image = b.stocked(ctx, s.pools, s.beside)
		s.samples, s.rates, s.costs = map[side][]sample{}, map[side][]float64{}, map[side][]float64{}
		defer s.image.drop()
	}
	for _, clients := range []int{1, 8} {
		b.fewClients(ctx, y, base, clients)
	}
	b.manyClients(ctx, y, base, others)
}

// stocked is an image with ready ones for a window of claims.
func (b *bench) stocked(ctx context.Context, pools, beside int) *image {
	f := b.fleet(ctx, pools, 0)
	f.addClaimed(ctx, beside)
	f.add(ctx, b.stock())
	return b.image(ctx, f)
}

// measure takes one window on a copy of the setting's image.
func (s *setting) measure(ctx context.Context, b *bench, side side, clients int) sample {
	d := s.image.open(ctx)
	defer d.close()
	var got sample
	within(fmt.Sprintf("claims.%s%s.%d", side, s.name, clients), func() { got = d.measure(ctx, b, side, clients, 0) })
	fmt.Fprintf(os.Stderr, "# claims.%s%s.%d: %.0f/s, %.0f us of processor, %.0f bytes of log each\n",
		side, s.name, clients, got.perSecond, micros(got), got.wal)
	s.samples[side] = append(s.samples[side], got)
	return got
}

// fewClients take turns: store, HTTP, simple updates, and again.
func (b *bench) fewClients(ctx context.Context, y *yardstick, base *setting, clients int) {
	var yard []sample
	for range b.rounds {
		for _, side := range sides {
			base.measure(ctx, b, side, clients)
		}
		yard = append(yard, y.measure(ctx, b, clients, 0))
	}
	base.print(clients, y, yard)
	clear(base.samples)
}

// manyClients have each of the other settings right after a round of the one pool that they are compared with. A setting
// that fails is left out from there on.
func (b *bench) manyClients(ctx context.Context, y *yardstick, base *setting, others []*setting) {
	const clients = 32
	var yard []sample
	var failed failures
	for range b.rounds {
		for _, side := range sides {
			var with sample
			for i, other := range others {
				if side == store || i == 0 {
					with = base.measure(ctx, b, side, clients)
				}
				if other == nil {
					continue
				}
				var got sample
				if !failed.unless(other.name, func() { got = other.measure(ctx, b, side, clients) }) {
					others[i] = nil
					continue
				}
				other.rates[side] = append(other.rates[side], got.perSecond/with.perSecond)
				other.costs[side] = append(other.costs[side], micros(got)/micros(with))
			}
			yard = append(yard, y.measure(ctx, b, clients, 0))
		}
	}
	base.print(clients, y, yard)
	for _, s := range others {
		if s == nil {
			continue
		}
		s.print(clients, y, yard)
		for _, side := range sides {
			full := fmt.Sprintf("claims.%s%s.%d", side, s.name, clients)
			of := fmt.Sprintf("claims.%s.%d-right-before", side, clients)
			lineRatio(full+".beside-one-pool", middle(s.samples[side], perSecond), "/s", median(s.rates[side]), of)
			lineRatio(full+".processor.beside-one-pool", middle(s.samples[side], micros), "us", median(s.costs[side]), of)
		}
	}
	failed.must()
}

func (s *setting) print(clients int, y *yardstick, yard []sample) {
	su := fmt.Sprintf("%s-%d", y.name(), clients)
	for _, side := range sides {
		full, samples := fmt.Sprintf("claims.%s%s.%d", side, s.name, clients), s.samples[side]
		line(full, middle(samples, perSecond), "/s", middle(yard, perSecond), su)
		line(full+".processor", middle(samples, micros), "us", middle(yard, micros), su)
		line(full+".here", middle(samples, here), "us", middle(yard, here), su)
		line(full+".log", middle(samples, logged), "bytes", 0, "")
		line(full+".p50", middle(samples, p50), "ms", middle(yard, p50), su)
		line(full+".p99", middle(samples, p99), "ms", middle(yard, p99), su)
	}
}
