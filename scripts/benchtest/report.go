package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// sample is one measurement.
type sample struct {
	n         int
	perSecond float64
	processor time.Duration // of both sides, per operation
	ours      time.Duration // of this side, per operation
	p50, p99  time.Duration
	wal       float64 // bytes of log per operation; of claims only

	lasted time.Duration // of claims only
}

// middle is the median of a figure over samples.
func middle(samples []sample, of func(sample) float64) float64 {
	values := lists.Of(samples, of)
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// whole are several windows as one: all that was done over all the time that it took. A median of windows would not tell of
// the worst of them.
func whole(windows []sample) sample {
	var all sample
	var n, processor float64
	for _, w := range windows {
		done := w.perSecond * w.lasted.Seconds()
		n, processor, all.lasted = n+done, processor+done*float64(w.processor), all.lasted+w.lasted
	}
	all.perSecond, all.processor = n/all.lasted.Seconds(), time.Duration(processor/n)
	return all
}

func perSecond(s sample) float64 { return s.perSecond }
func micros(s sample) float64    { return float64(s.processor) / float64(time.Microsecond) }
func here(s sample) float64      { return float64(s.ours) / float64(time.Microsecond) }
func logged(s sample) float64    { return s.wal }
func p50(s sample) float64       { return float64(s.p50) / float64(time.Millisecond) }
func p99(s sample) float64       { return float64(s.p99) / float64(time.Millisecond) }

// line prints a figure beside its yardstick; none where its value is 0.
func line(name string, value float64, unit string, yard float64, yardstick string) {
	ratio := 0.0
	if yard != 0 {
		ratio = value / yard
		yardstick += "=" + number(yard)
	}
	lineRatio(name, value, unit, ratio, yardstick)
}

// lineRatio prints a figure with the ratio that was found some other way; none where it is 0.
func lineRatio(name string, value float64, unit string, of float64, yardstick string) {
	ratio := "-"
	if of != 0 {
		ratio = strconv.FormatFloat(of, 'f', 2, 64)
	}
	if yardstick == "" {
		yardstick = "-"
	}
	fmt.Printf("%-44s %10s %-9s %6s  %s\n", name, number(value), unit, ratio, yardstick)
}

func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// millis is a quantile of durations, in milliseconds.
func millis(d []time.Duration, q float64) float64 {
	return float64(quantile(d, q).Microseconds()) / 1000
}

// quantiles prints the median and the 99th percentile.
func quantiles(name string, took []time.Duration) {
	line(name+".p50", millis(took, 0.5), "ms", 0, "")
	line(name+".p99", millis(took, 0.99), "ms", 0, "")
}

// quantile of durations, which it sorts.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func startProfile(path string) (stop func()) {
	if path == "" {
		return func() {}
	}
	f := get(os.Create(path))
	must(pprof.StartCPUProfile(f))
	return func() { pprof.StopCPUProfile(); _ = f.Close() }
}
