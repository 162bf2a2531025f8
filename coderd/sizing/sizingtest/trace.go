package sizingtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Trace is when claims arrive under a seed, in order. The same shape and seed make the same trace on every machine.
func (s Shape) Trace(seed uint64) []time.Time {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), shape: s}
	holidays := g.holidays()
	scale := 1.0
	for day := range Days {
		working := day%7 < 5 && !holidays[day]
		g.day(Start.AddDate(0, 0, day), working, scale)
		scale *= s.Growth
	}
	slices.SortFunc(g.claims, time.Time.Compare)
	end := Start.AddDate(0, 0, Days)
	return slices.DeleteFunc(g.claims, func(at time.Time) bool { return at.Before(Start) || !at.Before(end) })
}

type generator struct {
	*rand.Rand
	shape  Shape
	claims []time.Time
}

func (g *generator) holidays() map[int]bool {
	chosen := make(map[int]bool)
	for len(chosen) < g.shape.Holidays {
		if day := g.IntN(Days); day%7 < 5 {
			chosen[day] = true
		}
	}
	return chosen
}

// day adds the claims of one day. `scale` is what growth has made of the rate.
func (g *generator) day(midnight time.Time, working bool, scale float64) {
	factor := scale * g.gamma(1/(g.shape.DaySpread*g.shape.DaySpread))
	if !working {
		factor *= g.shape.Weekend
	}
	for minute := range 24 * 60 {
		hour, part := minute/60, float64(minute%60)/60
		rate := g.shape.Curve[hour]*(1-part) + g.shape.Curve[(hour+1)%24]*part
		for range g.poisson(factor * rate / 60 / g.shape.Batch) {
			at := midnight.Add(time.Duration(minute)*time.Minute + g.within(time.Minute))
			g.batch(at)
		}
	}
	for _, burst := range g.shape.Bursts {
		if working || burst.Daily {
			g.burst(midnight, burst)
		}
	}
}

// batch is the claims that come with one arrival.
func (g *generator) batch(at time.Time) {
	size := 0
	if len(g.shape.Sizes) > 0 {
		size = g.shape.Sizes[g.IntN(len(g.shape.Sizes))]
	}
	for n := 1; ; n++ {
		g.claims = append(g.claims, at)
		if size == 0 && g.Float64() < 1/g.shape.Batch || n == size {
			return
		}
		at = at.Add(g.within(2 * time.Second))
	}
}

func (g *generator) burst(midnight time.Time, b Burst) {
	times := 1
	if b.At < 0 {
		times = g.poisson(b.PerDay)
	}
	for range times {
		at := b.At - b.Jitter + g.within(2*b.Jitter)
		if b.At < 0 {
			at = 9*time.Hour + g.within(8*time.Hour)
		}
		for range b.Least + g.IntN(b.Most-b.Least+1) {
			g.claims = append(g.claims, midnight.Add(at+g.within(b.Over)))
		}
	}
}

// within is a uniform duration below the bound, in whole milliseconds.
func (g *generator) within(bound time.Duration) time.Duration {
	return time.Duration(g.Float64()*float64(bound/time.Millisecond)) * time.Millisecond
}

// poisson counts exponential steps; the means here are small.
func (g *generator) poisson(mean float64) int {
	n := 0
	for sum := g.ExpFloat64(); sum < mean; sum += g.ExpFloat64() {
		n++
	}
	return n
}

// gamma has mean 1 and the given shape, of at least 1 (Marsaglia and Tsang's method).
func (g *generator) gamma(shape float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := g.NormFloat64()
		v := 1 + c*x
		v *= v * v
		if v > 0 && math.Log(g.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v / shape
		}
	}
}
