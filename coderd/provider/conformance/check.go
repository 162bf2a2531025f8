package conformance

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/coder/quartz"
)

// Verdict is what came of one case.
type Verdict struct {
	Case    Case
	Offered bool  // false: the provider does not claim to do that
	Err     error // nil: it passed
	Took    time.Duration
}

// Check runs the safe cases one after the other, and reports on each as soon as it is over. It stops when ctx ends,
// after what the case at hand made is deleted. Every case has names of its own, so that what one leaves behind is not
// held against the next.
func Check(ctx context.Context, s Subject, report func(Verdict)) {
	s.Clock = cmp.Or(s.Clock, quartz.NewReal())
	prefix := s.Prefix
	for n, c := range Cases() {
		if ctx.Err() != nil {
			return
		}
		if !c.Safe {
			continue
		}
		v := Verdict{Case: c, Offered: c.Offered(s.Provider)}
		if v.Offered {
			s.Prefix = fmt.Sprintf("%s%d-", prefix, n)
			start := s.Clock.Now("conformance", "check")
			v.Err = c.Run(ctx, s)
			v.Took = s.Clock.Since(start, "conformance", "check")
		}
		report(v)
	}
}
