package prebuilds

import "time"

// Rate is how fast creates may be begun at a provider (S5): a bucket of Burst, to which one comes back each Every. All
// that is known of it is when it will be full again, so that a change of Every or Burst holds at once.
type Rate struct {
	Every  time.Duration // more than 0
	Burst  int           // at least 1
	FullAt time.Time     // zero: it never was anything but full
}

// Allowance is what a Rate leaves for one pass.
type Allowance struct {
	Creates int
	// NextAt is when there will be one more than what is left; zero while the bucket is full.
	NextAt time.Time
	rate   Rate
	now    time.Time
}

// At is what may be begun at that time.
func (r Rate) At(now time.Time) *Allowance {
	a := &Allowance{Creates: r.Burst, rate: r, now: now}
	if missing := r.FullAt.Sub(now); missing > 0 {
		taken := int((missing + r.Every - 1) / r.Every) // one that is not back in full is not back
		a.Creates = max(0, r.Burst-taken)
		a.NextAt = r.FullAt.Add(-time.Duration(r.Burst-a.Creates-1) * r.Every)
	}
	return a
}

// spend is what is left after n creates.
func (a *Allowance) spend(n int) *Allowance {
	if a == nil || n == 0 {
		return a
	}
	rate := a.rate
	if rate.FullAt.Before(a.now) {
		rate.FullAt = a.now
	}
	rate.FullAt = rate.FullAt.Add(time.Duration(n) * rate.Every)
	return rate.At(a.now)
}

// FullAt is when the bucket is full again; zero if it always was.
func (a *Allowance) FullAt() time.Time { return a.rate.FullAt }
