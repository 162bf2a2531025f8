package explain

import (
	"fmt"
	"time"
)

// DelayCode names why a job of a forge waits though a preset is to serve it.
type DelayCode string

// ForgeLeftAlone: no runner is registered at the preset's forge for now (P8).
const ForgeLeftAlone DelayCode = "forge_left_alone"

// Delay is why a job waits, in a sentence.
type Delay struct {
	Code DelayCode
	Text string
}

// LeftAlone is the delay by a forge that is left alone until an instant, after an error in its own words.
func LeftAlone(until time.Time, cause string) Delay {
	return Delay{ForgeLeftAlone, fmt.Sprintf("no runner registers before %s, since the forge is not well: %s",
		until.UTC().Format(time.RFC3339), cause)}
}
