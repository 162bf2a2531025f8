package explain

import (
	"fmt"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Attained is what the claims of a time attained, and how many missed for which reason. Reasons need not be known of all.
type Attained struct {
	Target       float64 // hit rate, between 0 and 1
	Claims, Hits int
	Maximum      int // of autosize
	AtMaximum    int // more came within one provision time than the pool's maximum
	InBursts     int // more came within one provision time than the pool had, below its maximum
	Bursts       int // periods of five minutes in which these came
	Unready      int // fewer came than the pool should have had
}

// Below says whether fewer claims hit than the target asks for.
func (a Attained) Below() bool { return float64(a.Hits) < a.Target*float64(a.Claims) }

// Why says why claims missed, where fewer hit than the target asks for; else it is empty.
func (a Attained) Why() string {
	if !a.Below() {
		return ""
	}
	var of []string
	if a.AtMaximum > 0 {
		of = append(of, fmt.Sprintf("%d at the maximum of %s", a.AtMaximum, prebuilds.Plural(a.Maximum, "prebuild")))
	}
	if a.InBursts > 0 {
		of = append(of, fmt.Sprintf("%d in %s that nothing announced, of more claims than prebuilds", a.InBursts, prebuilds.Plural(a.Bursts, "burst")))
	}
	if a.Unready > 0 {
		of = append(of, fmt.Sprintf("%d while prebuilds were not ready", a.Unready))
	}
	why := prebuilds.Plural(a.Claims-a.Hits, "claim") + " missed"
	if len(of) > 0 {
		why += ": " + strings.Join(of, ", ")
	}
	return why
}
