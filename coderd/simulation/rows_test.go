//go:build !race

package simulation

import (
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// Which row of the table of states (prebuilds.Transitions) something is: the states alone do not tell, as several events
// may lead from one to the other.

// row is the name of one in the coverage report.
func row(from, to, event string) string { return "row: " + from + " -> " + to + ", " + event }

// rowOf is the row of what history has, which must be one of the table's.
func (m *model) rowOf(e event) string {
	var possible []string
	for _, t := range prebuilds.Transitions {
		if string(t.From) == e.from && string(t.To) == e.to && !slices.Contains(possible, t.Event) {
			possible = append(possible, t.Event)
		}
	}
	why := m.why(e)
	if why == "" && len(possible) == 1 {
		why = possible[0]
	}
	if !slices.Contains(possible, why) {
		m.w.violate("states", "%s -> %s for %q (%s) is no row of the table", e.from, e.to, why, e.reason)
	}
	return row(e.from, e.to, why)
}

// why is the event, where a row's states do not tell.
func (m *model) why(e event) string {
	byJob, byPerson := e.attempt != nil, e.actor == m.w.owner // the end of a job, which names its attempt (I5)
	switch e.from + " -> " + e.to {
	case "provisioning -> deleting", "provisioning -> quarantined":
		switch {
		case !byJob:
			return "no longer wanted"
		case strings.HasPrefix(e.reason, "the provider reports an error"):
			return "created, but in error"
		}
		return "create failed for good"
	case "starting -> draining":
		switch {
		case byJob:
			return "failed or timed out"
		case served(e.reason):
			return "its runner has served"
		}
		return "no longer wanted"
	case "starting -> starting":
		if e.reason == "reset" {
			return "reset"
		}
		return "started out of standby"
	case "starting -> quarantined", "ready -> quarantined", "standby -> quarantined":
		switch {
		case byPerson:
			return "kept by a person"
		case byJob:
			return "failed or timed out"
		}
		return "missing or contradicted at the provider"
	case "ready -> claimed":
		if e.actor == workspaces.ForgeJobs {
			return "claimed by a job"
		}
		return "claimed"
	case "ready -> draining":
		switch {
		case strings.HasPrefix(e.reason, "silent:"):
			return "silent"
		case strings.HasPrefix(e.reason, "the agent reports that it is unhealthy"):
			return "unhealthy"
		case strings.HasPrefix(e.reason, "G4:"):
			return "in error or stopped at the provider"
		case served(e.reason):
			return "its runner has served"
		}
		return "no longer wanted"
	case "standby -> draining":
		if strings.HasPrefix(e.reason, "G4:") {
			return "in error at the provider"
		}
		return "no longer wanted"
	case "claimed -> claimed":
		if byJob && !strings.HasPrefix(e.reason, "started") {
			return "not started"
		}
		return "started out of standby"
	case "deleting -> deleted":
		switch {
		case !byJob:
			return "missing"
		case e.reason == "forced":
			return "delete failed"
		}
		return "gone or not found"
	}
	return ""
}

// served says whether a reason is that a runner is of no more use.
func served(reason string) bool {
	return strings.HasPrefix(reason, "job ") && strings.Contains(reason, " completed") || strings.HasPrefix(reason, "its runner ")
}
