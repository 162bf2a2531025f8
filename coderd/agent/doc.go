// Package agent is what runs inside a workspace: it runs the workspace's command and scripts, reports how they do, and
// learns whose the workspace has become. It knows the server's address and holds an instance token, in a file; it knows
// no provider.
//
//	command   runs from the first moment to the last; the agent ends with it, and by its status
//	on_start  runs beside it; when it succeeds the workspace is reported ready, when it fails, unhealthy
//	runner    runs after on_start in the workspaces of runner presets, with a configuration that the server had its forge make
//	on_claim  runs once for each claim, told owner, claim and late parameters by files and environment
//
// Two loops speak with the server. One reports: at each change at once, and as a heartbeat, at a jittered pace. One asks
// for claims, saying which it knows, and keeps the question open; what it is answered comes from the database, so a claim
// that was made while there was no connection is the answer to the first question after. Both try for ever, with
// jittered backoff. A report that gets no answer also ends the open question, whose connection is likely dead too.
//
// A third loop holds a tunnel to the server, through which the user of a claim runs processes (package processes). Nothing
// else depends on it. Where the server asks for another tunnel, because it stops, the old one is served until it is cut. A
// token that is refused twice in a row is that of work that has ended: so do the processes.
//
// What a claim brings is written to the agent's directory before on_claim begins: claim.json, and claim.env for shells.
// on_claim is not run again for a claim that it was run for, even by another agent process (claim.done).
//
// When its context ends, or the command does, the agent ends what it started: SIGTERM to each process group, SIGKILL
// after a grace.
package agent
