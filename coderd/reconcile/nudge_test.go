package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/tracing"
)

// A nudge from this process that a busy lock put off is not replaced by one from elsewhere: a pass that began after that
// one, but before the commit which this one is about, would then drop it.
func TestGiveBack_keepsWhatIsFromHere(t *testing.T) {
	here, template := &Reconciler{nudges: map[uuid.UUID]nudged{}, Options: Options{Replica: "a"}, wake: make(chan struct{}, 1)}, uuid.New()
	taken := map[uuid.UUID]nudged{template: {}}
	here.Heard(`{"from": "b", "template": "` + template.String() + `", "at_us": 1}`)
	here.giveBack(taken)
	require.True(t, time.Time(here.nudges[template]).IsZero())
}

// Hits are served by one pass, a moment after the first of them. A nudge does not wait for it, and covers them.
func TestRefill(t *testing.T) {
	clock := quartz.NewMock(t)
	here := New(Options{Clock: clock, Registerer: prometheus.NewRegistry(), Replica: "a", Tracer: tracing.Off()})
	hit, nudgedToo := uuid.New(), uuid.New()
	here.Refill(hit)
	clock.Advance(refillAfter / 5)
	here.Refill(hit)
	here.Refill(nudgedToo)
	require.Empty(t, here.takeNudges())
	require.Equal(t, refillAfter*4/5, here.untilDue())
	here.Nudge(nudgedToo)
	require.Equal(t, map[uuid.UUID]nudged{nudgedToo: {}}, here.takeNudges())
	clear(here.unpublished)
	clock.Advance(refillAfter * 4 / 5)
	require.Zero(t, here.untilDue())
	here.nudgeDue()
	require.Equal(t, map[uuid.UUID]nudged{hit: {}}, here.takeNudges())
	require.Equal(t, map[uuid.UUID]struct{}{hit: {}}, here.unpublished, "the other replicas are told")
	require.Equal(t, time.Hour, here.untilDue(), "nothing is left")
}

// A nudge that another replica served leaves its trace to that replica: the next pass here is not inside of it, unless it
// serves a nudge that came since.
func TestForgetCauses(t *testing.T) {
	header := func(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }
	here := &Reconciler{nudges: map[uuid.UUID]nudged{}, wake: make(chan struct{}, 1), Options: Options{Replica: "a", Tracer: tracing.Off()}}
	hear := func(template uuid.UUID, n int) {
		here.Heard(fmt.Sprintf(`{"from": "b", "template": %q, "at_us": 1, "trace": %q}`, template, header(n)))
	}
	elsewhere, mine, again := uuid.New(), uuid.New(), uuid.New()
	hear(elsewhere, 1)
	hear(mine, 2)
	hear(again, 3)
	taken := here.takeNudges()
	require.Len(t, taken, 3)
	hear(again, 4)
	here.forgetCauses(taken, []uuid.UUID{mine})
	_, _, causes := here.startTrace(t.Context(), "tick", nil)
	var left []uuid.UUID
	for _, c := range causes {
		left = append(left, c.template)
	}
	require.Equal(t, []uuid.UUID{mine, again, again}, left)
}
