package reconcile

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A nudge from this process that a busy lock put off is not replaced by one from elsewhere: a pass that began after that
// one, but before the commit which this one is about, would then drop it.
func TestGiveBack_keepsWhatIsFromHere(t *testing.T) {
	here, template := &Reconciler{nudges: map[uuid.UUID]nudged{}, replica: "a", wake: make(chan struct{}, 1)}, uuid.New()
	taken := map[uuid.UUID]nudged{template: {}}
	here.Heard(`{"from": "b", "template": "` + template.String() + `", "at_us": 1}`)
	here.giveBack(taken)
	require.True(t, time.Time(here.nudges[template]).IsZero())
}
