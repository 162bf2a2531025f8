package prebuilds

import "github.com/prewarm-dev/prewarm/coderd/lists"

// Transition is one row of the state machine: leaving From because of Event leads To, where the guard holds. From is
// empty where no row, or no row that is not deleted, was there before.
type Transition struct {
	From   State
	Event  string
	Guard  string
	To     State
	Effect string
}

// Transitions is the whole state machine (DESIGN section 4). Work in flight is a leased job, not a state, so a
// workspace cannot be stuck in the middle of one: rows from a state to itself are what happens to its job.
// coderd/workspaces has one function per row; docs/STATE_MACHINE.md shows them.
var Transitions = []Transition{
	{"", "planned", "below desired and every limit", Provisioning, "create job"},

	{Provisioning, "created", "attempt matches", Starting, "provider id and addresses stored"},
	{Provisioning, "create failed, retryable", "attempts left", Provisioning, "backoff; delete by name before that"},
	{Provisioning, "created, but in error", "attempt matches", Deleting, "delete job, by id, else by name; streak + 1"},
	{Provisioning, "created, but in error", "template keeps failures, and has room for one", Quarantined, "error and output kept; streak + 1"},
	{Provisioning, "create failed for good", "attempt matches", Deleting, "delete job; error kept; streak + 1"},
	{Provisioning, "create failed for good", "template keeps failures, and has room for one", Quarantined, "error and output kept; streak + 1"},
	{Provisioning, "no longer wanted", "never leased", Deleted, "create job cancelled"},
	{Provisioning, "no longer wanted", "was leased", Deleting, "delete job, by name"},

	{Starting, "ready, by its agent where it has one", "incarnation matches", Ready, "streak reset; oldest waiting claim bound"},
	{Starting, "failed or timed out", "the observer is healthy", Draining, "deregister; streak + 1"},
	{Starting, "failed or timed out", "template keeps failures, and has room for one", Quarantined, "error and output kept; streak + 1"},
	{Starting, "reset", "attempt and incarnation match", Starting, "probe job"},
	{Starting, "reset failed", "attempts used up, or for good", Deleting, "delete job; never kept"},
	{Starting, "no longer wanted", "unclaimed", Draining, "deregister"},
	{Starting, "its runner has served", "its job is over", Draining, "deregister"},
	{Starting, "started out of standby", "attempt and incarnation match", Starting, "probe job"},
	{Starting, "missing or contradicted at the provider", "two complete inventories and a grace", Quarantined, "replan"},
	{Starting, "kept by a person", "unclaimed, and not being reset", Quarantined, "the pool builds another"},

	{Ready, "claimed", "one statement", Claimed, "claim bound; agent informed; nudge"},
	{Ready, "no longer wanted", "unclaimed", Draining, "deregister"},
	{Ready, "claimed by a job", "its runner was given it; one statement", Claimed, "claim bound, without a lease; nudge"},
	{Ready, "its runner has served", "its job is over, or it ended or is gone from a complete listing", Draining, "deregister"},
	{Ready, "stopped for standby", "unclaimed", Standby, "stop job, repeated until it is stopped"},
	{Ready, "silent", "below the recovery limit; the observer is healthy", Starting, "probe job: wait for the agent"},
	{Ready, "silent", "at the recovery limit; the observer is healthy", Draining, "deregister"},
	{Ready, "unhealthy", "the agent says so", Draining, "deregister"},
	{Ready, "in error or stopped at the provider", "two complete inventories and a grace", Draining, "deregister"},
	{Ready, "missing or contradicted at the provider", "two complete inventories and a grace", Quarantined, "replan"},
	{Ready, "kept by a person", "unclaimed, and not being reset", Quarantined, "the pool builds another"},

	{Standby, "claimed", "one statement", Claimed, "claim bound; start job, first in line"},
	{Standby, "started", "unclaimed", Starting, "start job"},
	{Standby, "no longer wanted", "unclaimed", Draining, "deregister"},
	{Standby, "in error at the provider", "two complete inventories and a grace", Draining, "deregister"},
	{Standby, "missing or contradicted at the provider", "two complete inventories and a grace", Quarantined, "replan"},
	{Standby, "kept by a person", "unclaimed, and not being reset", Quarantined, "the pool builds another"},

	{Claimed, "released, job completed or lease over", "", Draining, "deregister"},
	{Claimed, "released, job completed or lease over", "reusable, and its pool has room, under the fence", Starting, "reset job; incarnation + 1"},
	{Claimed, "started out of standby", "attempt and incarnation match", Claimed, "probe job; with its answer the claim can be used"},
	{Claimed, "not started", "attempts used up, for good or out of time", Claimed, "fault stored, alarm only"},
	{Claimed, "to be applied for its owner", "its spec asks for it; once for a claim", Claimed, "handover job"},
	{Claimed, "applied for its owner", "attempt and incarnation match", Claimed, ""},
	{Claimed, "not applied for its owner", "attempts used up, or refused", Claimed, "fault stored; a person may have it tried again"},
	{Claimed, "silent, unhealthy or missing", "", Claimed, "alarm only"},

	{Draining, "busy veto", "the forge says a job runs", Draining, "wait"},
	{Draining, "deregistered or never registered", "", Deleting, "delete job"},

	{Deleting, "gone or not found", "attempt matches", Deleted, ""},
	{Deleting, "delete failed", "attempt matches", Deleting, "endless backoff, 1 s doubling to 5 min, jittered"},
	{Deleting, "delete failed", "forced", Deleted, "the resource is still watched for"},
	{Deleting, "missing", "deleting it fails; two complete inventories and a grace", Deleted, ""},

	{Deleted, "tagged resource seen", "past a grace", Deleted, "the inventory deletes it, by provider id; nothing moves"},

	{Quarantined, "retried", "its pool has room, under the fence", Starting, "probe job"},
	{Quarantined, "retried", "the same, and nothing was ever made", Provisioning, "create job, which deletes by name first"},
	{Quarantined, "kept by a person", "", Quarantined, "for longer"},
	{Quarantined, "kept long enough, or let go by a person", "", Draining, "deregister"},
}

type edge struct{ from, to State }

var edges = lists.Keyed(Transitions, func(t Transition) (edge, bool) { return edge{t.From, t.To}, true })

// CanMove says whether any event leads from one state to the other. From is empty for a workspace that is new.
func CanMove(from, to State) bool { return edges[edge{from, to}] }

// Unclaimed says whether a workspace in this state is the pool's: a pass reads exactly these. False for no state at
// all.
func Unclaimed(s State) bool {
	switch s {
	case Provisioning, Starting, Ready, Standby, Draining, Deleting, Quarantined:
		return true
	default:
		return false
	}
}

// Live says whether a workspace in this state counts against its provider's maximum: whatever may have a resource
// there.
func Live(s State) bool { return Unclaimed(s) || s == Claimed }
