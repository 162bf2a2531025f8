// Package simulation runs replicas of the real reconciler, workers, claims and agents' side against the real PostgreSQL,
// deterministically: a seed decides everything that chance decides elsewhere. It has tests only.
//
// The replicas run inside a testing/synctest bubble, whose clock is the only one: prewarm_now() is set to it on every
// session. Whatever leaves a replica (a statement, a commit, a call of a provider, an answer to a client) waits at a
// gate. When every goroutine of the bubble waits, the scheduler, by its seed, lets one of them through, lets it fail,
// delivers a notification, does what people and accidents do (claims, releases, new versions, pauses; crashes, freezes,
// jumps of the clock), or lets time pass. So replicas interleave at every call, one statement runs at a time, and a
// statement that waits for a lock is an outcome like any other.
//
// After every step that may have written, the model compares the database with what it saw before and with what clients
// were told, and the provider's own listing with both: I1 to I5, I7 and I8 of DESIGN section 5, P2 and P7. At the end the faults
// stop, and everything must converge (I6) and hear of a claim in time (I9).
//
//	postgres_test.go   sessions, outside of the bubble: one statement at a time, and which of them wait for locks
//	gate_test.go       what a replica is given for a database
//	cloud_test.go      what a replica is given for a provider
//	replica_test.go    the parts of one replica, for coderd/replica
//	world_test.go      the scheduler
//	fate_test.go       what goes wrong
//	people_test.go     what people do: claims, releases, configuration
//	agent_test.go      agents inside of workspaces
//	model_test.go      the invariants
//	rows_test.go       which row of the table of states something is
//	order_test.go      orders of events that are legal and rare: late calls, slow transactions, ambushes
//	eligible_test.go   no miss while something is eligible
//	standby_test.go    the tier of stopped prebuilds
//	upkeep_test.go     reuse, kept failures, schedules
//	hub_test.go        a forge, in some seeds: its jobs, its runners, and what it sends
//	demand_test.go     what a replica is given for that forge, what happens there, and what must hold of it
//	behind_test.go     what somebody does at the provider behind the back, in some seeds
//	ending_test.go     convergence, and what comes after
//	mischief_test.go   what goes wrong alone, once all was well
//	shrink_test.go     the shortest trace of a failing seed
//
// What arrives at the gate between two steps is put in order by what it is: its process, its statement or call, its
// arguments, its transaction, the request that it belongs to, the functions that made it. What the product leaves to chance
// otherwise (the order of a map, a select of two timers of one instant) shows as another trace; mend it there.
//
// A process that simulates runs on one thread and collects no garbage meanwhile, since the order in which goroutines run
// would otherwise be the operating system's to choose. Many seeds run in several such processes. The race detector makes
// that order a matter of chance on purpose, so with it there is nothing here to run.
package simulation
