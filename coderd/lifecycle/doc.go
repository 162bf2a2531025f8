// Package lifecycle does the work that passes and people order: it leases jobs, drives providers, and records what came
// of it (rules G1 to G6).
//
// A job is leased for a time. While it runs, the replica extends all its leases together; a lease that can't be extended
// in time, or was lost, ends the job's context a margin before somebody else may start. Whatever a worker then still
// writes names an attempt that is no longer current, and changes nothing (I5). What it still did at the provider is
// found again by name: creates are idempotent, and deletes are repeated until nothing is there.
//
// Work runs in lanes, each with its own slots, so that deletes never wait behind creates and neither behind workspaces
// that boot for long:
//
//	create   makes the resource, then asks for its readiness in the
//	probe    lane until it is ready, failed, or out of time
//	start    starts what is in standby, those first that are claimed; readiness is asked for in the probe lane
//	retire   drains and deletes, for ever if need be; makes released workspaces like new; stops for standby
//	intents  turns what passes want gone into drains, and what they want in another tier into stops and starts, unless a
//	         claim came first (I2)
//
// No provider is called inside a transaction (I8). When the replica stops, it takes no new lease, finishes what it can
// within a deadline and returns the rest (G6).
package lifecycle
