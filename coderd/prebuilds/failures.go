package prebuilds

import (
	"cmp"
	"regexp"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/printable"
)

const (
	// HardLimit is the number of failed rounds of creates in a row after which a preset's creation stops (C8).
	HardLimit = 3
	// firstBackoff is how long creation waits after one of them; it doubles with each further one, up to mostBackoff.
	firstBackoff = 5 * time.Second
	mostBackoff  = 5 * time.Minute
	// MayPassFor is how long failures that a retry may mend, such as those of a provider's outage, only space creates,
	// before they count as the others do.
	MayPassFor = 15 * time.Minute
)

// MayPass says whether failures in a row only space creates, as those of an outage do: fewer than HardLimit of them are of a
// kind that a retry cannot mend, and they have not gone on for long (C8).
func MayPass(permanent int, first, last time.Time) bool {
	return permanent < HardLimit && last.Sub(first) < MayPassFor
}

// hardLimited says whether creation has stopped until the version changes or a person resets the preset.
func (p *Preset) hardLimited() bool { return p.FailureStreak >= HardLimit && !p.FailuresMayPass }

// BackoffEnd is until when the failures so far hold creates back.
func (p *Preset) BackoffEnd() time.Time {
	return p.LastFailureAt.Add(min(firstBackoff<<min(p.FailureStreak-1, 16), mostBackoff))
}

// what makes the same fault look different each time: names of prebuilds, ids and other long strings of digits, numbers.
var (
	prebuildNames = regexp.MustCompile(`prebuild-[a-z2-7]{15}`)
	ids           = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{12,}\b`)
	numbers       = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
)

const maxCause = 200 // characters

// Cause is what a fault has in common with others of the same kind: its headline, without names, ids and numbers. It is
// what failures are grouped by; a headline that has nothing else is one cause with all of its like.
func Cause(fault string) string {
	cause := prebuildNames.ReplaceAllString(printable.Headline(fault), "PREBUILD")
	cause = ids.ReplaceAllString(cause, "ID")
	cause = numbers.ReplaceAllString(cause, "N")
	if r := []rune(cause); len(r) > maxCause {
		cause = string(r[:maxCause]) + "…"
	}
	return cmp.Or(cause, "unknown")
}
