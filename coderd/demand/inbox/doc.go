// Package inbox takes what forges say of their jobs, and decides whose demand each job is (P2, P3, P4).
//
//	Accept  a webhook: size, signature, one row in the inbox, an answer. Nothing is parsed, and no forge is asked
//	Run     leases rows of the inbox, reads them, merges them into forge_jobs, and matches
//	Match   whose demand each queued job is: a pure function (match.go) of all queued jobs and all runner presets
//	Missed  asks the forge for deliveries and jobs that were not heard of; called by whoever has the entity's round
//
// A delivery is handled by any replica. Its row is leased by its due time, like a job's: when the replica dies, the lease
// ends and another one takes it. To handle it twice does no harm, since merging is idempotent and knows no order: of every
// column of a job the greater of two values stays, in an order that does not depend on which came first (MergeForgeJobs).
//
// Merging and matching exclude one another over all replicas by an advisory lock, so that they never deadlock, and a match
// sees all that was merged. Neither is in the way of a webhook.
//
// What can fail: a delivery that can't be read is given up at once, with the reason in its row; one that can't be stored is
// tried again with growing pauses, 20 times. The database away: Accept says so, and the forge's own list of deliveries brings
// back what it refused. All replicas away: the same. A forge that keeps no such list: its open jobs are listed.
package inbox
