package explain

import (
	"fmt"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Breaker says what the open breaker of a provider stops, and why. Site is empty for a provider without sites. One that calls
// have opened stops no delete.
func Breaker(provider, site, cause string, byCalls bool) string {
	if site != "" {
		provider += " at site " + site
	}
	if byCalls {
		return "nothing is created at provider " + provider + because(cause)
	}
	return "nothing is created or deleted at provider " + provider + because(cause)
}

// Missing says that a claimed workspace's provider has nothing of it any more.
func Missing(workspace, provider string) string {
	return "claimed workspace " + workspace + " is not at provider " + provider + " any more; it stays claimed"
}

// Refused says that claimed workspaces are of a spec that their provider refuses now.
func Refused(claimed int, provider, cause string) string {
	return prebuilds.Plural(claimed, "claimed workspace") + " would not be created or started now at provider " + provider +
		because(cause) + "; what runs keeps running"
}

// Room is what bears on whether a workspace may return to its pool.
type Room struct {
	Current, Paused bool
	Has, Wanted     int
	Full            bool // it was gone, and others have its place at the provider by now
}

// NoRoom says why a workspace cannot return to its pool, and what to do; empty where it can.
func NoRoom(r Room) string {
	switch {
	case !r.Current:
		return "it is of a version that is no longer active, or of a preset that is gone: delete it"
	case r.Paused:
		return "its pool is paused: resume it first"
	case r.Has >= r.Wanted:
		return fmt.Sprintf("its pool has %d of the %d that it should have: delete one, or ask for more instances", r.Has, r.Wanted)
	case r.Full:
		return "nothing is left at its provider, whose maximum is reached without it: delete it, or raise the maximum"
	}
	return ""
}
