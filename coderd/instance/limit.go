package instance

import (
	"sync"

	"github.com/coder/quartz"
	"golang.org/x/time/rate"
)

const (
	// An agent reports once in 10 s and at each change, and asks for events at most once a second or so.
	perSecond = 5
	burst     = 30
	// maxLimits bounds the memory that bearers of old tokens take.
	maxLimits = 50_000
)

// limits are one bucket for each bearer on this replica.
type limits struct {
	clock quartz.Clock

	mu      sync.Mutex
	buckets map[Bearer]*rate.Limiter
}

func newLimits(clock quartz.Clock) *limits {
	return &limits{clock: clock, buckets: map[Bearer]*rate.Limiter{}}
}

func (l *limits) allow(b Bearer) bool {
	now := l.clock.Now("instance", "limit")
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets[b]
	if !ok {
		if len(l.buckets) >= maxLimits {
			for other, bucket := range l.buckets { // a full bucket is as good as a new one
				if bucket.TokensAt(now) >= burst {
					delete(l.buckets, other)
				}
			}
		}
		bucket = rate.NewLimiter(perSecond, burst)
		l.buckets[b] = bucket
	}
	return bucket.AllowN(now, 1)
}
