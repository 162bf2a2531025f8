package prebuilds

import (
	"fmt"
	"time"
)

// Plural writes a number with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Instant writes a time in full, and always alike.
func Instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
