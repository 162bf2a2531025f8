// Package demand brings the jobs of forges to the pools: a queued job is demand, a running one a claim, a finished one a
// release (rules P1 to P8).
//
//	webhook  -> inbox (one row, answered at once) -> jobs (rows whose state only grows) -> match: whose demand -> nudge -> pass
//	pass     -> workspace -> its agent reads the runner's configuration once -> registered -> ready: an idle runner
//	in progress -> the runner's workspace is claimed -> completed -> released -> drain: unregistered first -> deleted
//
// The rooms below:
//
//	forge      what is needed of a forge; github and gitea are it
//	rest       what these two have in common: requests, limits, listings, jobs, webhooks
//	forgetest  a forge over HTTP, for tests
//	entities   credentials and entities, their secrets sealed, and a client for each entity
//	inbox      webhooks: signature, inbox, jobs, matching, what was missed
//	runners    registration, listings, claims and releases by jobs, unregistering
//	replay     recorded deliveries in hundreds of orders against all of it; tests only
//
// They agree through rows alone: each is a function of what the tables say, run again whenever something may have changed, so
// that lost, late and repeated events come to the same end.
package demand
