package prebuilds

import (
	"fmt"
	"time"
)

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// instant writes a time in full, and always alike.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
