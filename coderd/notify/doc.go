// Package notify tells people, by webhook, of what will not mend itself: a preset whose creation stopped after repeated
// failures, a target that cannot be reached, passes that do not succeed any more.
//
// What is told is a row before it is a request, one for each episode however many replicas notice it, so that no death of
// a process loses it and none tells it twice on purpose. Any replica delivers it: it leases the row for one attempt, sends
// it, and records the outcome by the number of the attempt. An attempt whose answer was lost is repeated, so a receiver
// may see the same id twice. What could not be told within a day is given up.
//
// A request is signed with a secret that both sides know:
//
//	X-Prewarm-Signature: sha256=HEX(HMAC-SHA256(secret, timestamp + "." + body))
//
// Neither the secret nor the URL, which may hold another, is ever in a log, an error or an answer.
package notify
