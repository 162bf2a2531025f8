// Package alerts exports current values as Prometheus gauges, watches them, and sends webhook notifications, once per
// episode. What happens is counted where it happens; nothing is decided or mended here.
//
//	Reader     reads one snapshot: the counts of rule C3 for every preset, what passes want to create and delete, who
//	           waits, what is paused, and for how long no pass succeeded
//	Collector  exports it
//	Watchdog   looks at it: no full pass has succeeded for too long, a preset's creation stopped after repeated failures, a
//	           target cannot be reached, a breaker is open, a claimed workspace is missing
//	Notifier   keeps an episode for each of these, and delivers it
//
// The database knows all of it: passes store their counts with each status. A snapshot is a few cheap statements, whose
// rows are presets, pauses and open jobs, never workspaces; what was read is good for some seconds, so that any number of
// scrapers cost what one does. Claimed workspaces are counted apart and rarely, since that count is as large as the fleet.
// Every replica exports the same: take the maximum over them, never the sum. Every replica watches, as any of them may be
// the last; the log line of each is its own.
//
// A notification is a row before it is a request, one for each episode however many replicas notice it, so that no death of
// a process loses it and none sends it twice on purpose. Any replica delivers it: it leases the row for one attempt, sends
// it, and records the outcome by the number of the attempt. An attempt whose answer was lost is repeated, so a receiver
// may see the same id twice. What could not be delivered within a day is given up.
//
// A request is signed with a secret that both sides know:
//
//	X-Prewarm-Signature: sha256=HEX(HMAC-SHA256(secret, timestamp + "." + body))
//
// Neither the secret nor the URL, which may hold another, is ever in a log, an error or an answer.
package alerts
