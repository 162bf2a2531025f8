// Package events tells people's screens what has changed, so that they read it again. An event is a hint of a topic and an
// id; what there is to see is read from the API, which knows who may see it.
//
// What has changed is found in the database, not told by whoever changed it: a Hub reads the rows that came since it last
// looked, of the history of workspaces, the audit log, the status that passes write, the list of replicas, and the jobs and
// runners of forges. So a change
// is heard of whichever replica made it, even one that was killed right after its commit, and nothing is added to the
// transactions of claims and passes. The hints that replicas send one another anyway (database/pubsub) only make the next
// look come sooner; it comes within 500 ms without them. A replica that nobody watches does not look.
//
// Ids of the logs are given out before the commit, so a row may appear behind one that was seen: the hub asks again for
// the numbers that were missing, for longer than any transaction may last (cursor).
//
// Each Stream is one screen. It holds the set of hints that are still to be sent: one that is slow, or away in the
// network, finds them merged. Past a bound they become one: everything. That is also the first event of each stream, sent
// after a look that began after the stream did, so that nothing falls between reading and listening.
//
// Who hears what follows the policy of package auth: a hint goes to whom the thing itself would be shown. The API ends
// a stream whose token, session or role has ended (auth.Watch).
package events
