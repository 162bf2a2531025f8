package claim

import "time"

// Receipt says how long the stages of a claim took. Each but the first two comes from what is stored anyway: a claim writes
// nothing for it.
type Receipt struct {
	Batched   bool          // the two that follow are known
	Queue     time.Duration // until its batch was formed
	Statement time.Duration // of the batch, commit included: they are one round trip
	Told      time.Duration // from the claim until the agent said that it knows; 0: not known
	Hook      time.Duration // from then until on_claim had succeeded; 0: not known
}
