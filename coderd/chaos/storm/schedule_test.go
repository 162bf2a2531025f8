package storm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is one thing to go wrong.
type fault struct {
	at     time.Duration // from the beginning
	kind   string
	target int // a replica, where it is about one
	lasts  time.Duration
	chance uint64 // for what else is random in it
}

func (f fault) String() string {
	about := ""
	if kinds[f.kind].replica {
		about = fmt.Sprintf(" %d", f.target)
	}
	return fmt.Sprintf("%6.1f s  %s%s for %.1f s", f.at.Seconds(), f.kind, about, f.lasts.Seconds())
}

// kinds are what can go wrong, and for how long.
var kinds = map[string]struct {
	least, most time.Duration
	replica     bool
}{
	"kill replica":          {0, 3 * time.Second, true},
	"freeze replica":        {time.Second, 20 * time.Second, true}, // a lease is 15 s
	"restart replica":       {0, time.Second, true},
	"cut database link":     {time.Second, 5 * time.Second, true},
	"swallow to database":   {time.Second, 12 * time.Second, true},
	"swallow from database": {time.Second, 12 * time.Second, true},
	"slow database link":    {3 * time.Second, 8 * time.Second, true},
	"reset database link":   {0, time.Second, true},
	"cut client link":       {time.Second, 5 * time.Second, true},
	"swallow answers":       {time.Second, 5 * time.Second, true},
	"reset client link":     {0, time.Second, true},
	"kill database":         {0, time.Second, false},
	"lose database":         {0, time.Second, false}, // for good; a synchronous standby takes its place
	"kill backend":          {0, time.Second, false},
	"freeze database":       {time.Second, 6 * time.Second, false},
	"restart database":      {0, time.Second, false},
	"fill disk":             {2 * time.Second, 6 * time.Second, false},
	"roll replicas":         {0, 0, false},
}

// schedule draws what goes wrong and when. Every kind comes once before any comes again.
func schedule(r *rand.Rand, length time.Duration, without ...string) (all []fault) {
	var names []string
	for name := range kinds {
		if !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	var left []string
	for at := time.Second; at < length; at += time.Second + time.Duration(r.Int64N(int64(5*time.Second))) {
		if len(left) == 0 {
			left = sorted(names)
			r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		kind := left[0]
		left = left[1:]
		k := kinds[kind]
		all = append(all, fault{
			at: at, kind: kind, target: r.IntN(replicaCount), chance: r.Uint64(),
			lasts: k.least + time.Duration(r.Int64N(int64(k.most-k.least)+1)),
		})
	}
	return all
}
