// Package coderd is the server: options, database, listener, and the API over one replica. The logic is in the rooms below,
// and data goes through them one way:
//
//	tick or nudge -> reconcile -> rows -> lifecycle -> provider -> workspaces (compare-and-set) -> nudge, notification
//	claim         -> one statement (workspaces) -> nudge
//	webhook       -> demand/inbox -> jobs of forges -> nudge; demand/runners -> workspaces -> nudge
//
// The rooms, and what each may touch:
//
//	prebuilds   the pure domain: states, counts, plans. No database, no clock, no network
//	explain     the words for its reasons: every sentence about a pool that a person reads. Pure too
//	reconcile   ticks, nudges and the pass: snapshot in, rows out
//	workspaces  the only writer of workspace state
//	lifecycle   workers: leases, providers, outcomes
//	instance    agents, the server's side: tokens, reports, delivery of claims, silence
//	agent       agents, the workspace's side: runs inside of it
//	agent/processes  commands inside of it, for its user, over HTTP
//	agent/ports      connections to ports inside of it, likewise
//	agent/ssh        SSH inside of it, with those commands
//	agent/files      its files, for its user, over HTTP
//	tree        files written in one step, and trees of them as tar archives, on both sides
//	streams     many streams over one WebSocket: what tunnels and relays are made of
//	tunnel      the data plane, the server's side: tunnels of agents, and the relay between replicas
//	claim       hands prebuilds to their users
//	lease       what rooms need around leased work: the loop that looks for it, one at a time, backoff
//	leases      ends what claims have for a time: leases, and places in line
//	demand      forges: jobs that want runners, webhooks, registration; rooms of its own in doc.go there
//	seal        seals secrets with keys outside of the database
//	states      keeps states of Terraform: sealed, versioned, written by one run at a time
//	coder       reads templates of Coder, and writes them as configuration files; for the command line
//	modules     packs directories of modules of Terraform as archives, and reads archives; on both sides
//	inventory   what providers have against what the database says; breakers
//	sizing      how large a pool should be, by its claim history; pure
//	autosize    counts claims, computes sizes, and stores them for the pass
//	provider    where workspaces live; one folder for each kind, and the conformance suite
//	templates   configuration files: parse, check, diff, write
//	auth        users, tokens, roles; reads the audit log, and writes what is its own
//	events      tells screens what has changed
//	api         HTTP, one file for each resource
//	serve       bounds what connections cost: slow bodies, too many
//	sdk         wire types and client, shared with the command line
//	replica     builds a replica from its parts, for the server and for tests alike; runs and stops its loops
//	replicas    the list of running replicas
//	lists       makes slices and maps of slices, for every room
//	metric      makes metrics and registers them, for every room
//	wait        waits for time to pass, for every room
//	hints       tells rooms of the replica, and other replicas, to look now; decides nothing
//	alerts      exports current values as gauges, watches them, and sends webhook notifications, once per episode
//	humanlog    log lines for people
//	printable   makes text from elsewhere safe to show in a terminal or a log; makes the headline of a fault
//	tracing     one cause through processes and rows, for OpenTelemetry
//	retention   deletes what is old, and keeps the partitions of the logs
//	chaos       tests that hurt real processes; chaos/storm all faults at once, chaos/judge what was wrong,
//	            chaos/engine behind the server's back on a container engine
//	coderdtest  replicas inside of tests
//	tied        processes that end with the one that started them; tests and benchmarks
//	simulation  replicas under every order of events and every fault, by a seed; tests only
//
// Rooms do not import their neighbours: what reconcile, claim, lifecycle and inventory need of one another is a hint, or a
// func or an interface that replica passes in (imports_test.go enforces it).
package coderd
