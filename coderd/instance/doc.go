// Package instance is the server's side of the agents: the tokens that workspaces speak with, what they report, what they
// are told, and what follows from their silence.
//
// # Tokens
//
// A token is a JWT (HS256) that names a workspace, its incarnation and the attempt of the create job that it was made for
// (G7). Its signature alone is worth nothing: each use is checked against the database. It is good while the workspace is
// provisioning, starting, ready, standby or claimed in that incarnation, and no later attempt has taken the place of its
// own. So it needs no end of its own, and is revoked by the transition that ends the work.
//
// Keys are rows. The newest signs, all that are not retired verify, and every replica reads them again once its view is a
// second old. An agent whose token is signed by an older key gets a new one with the answer to its next report, so that a
// rotation needs nobody's help: an old key is retired when no live agent uses it any more.
//
// # Reports
//
// A report writes the agent's row and never the workspace's, which a claim may be about to take (DESIGN section 6). What
// it means for the state is left to who moves workspaces: the probe of a starting one is woken and reads the row; a
// ready one that says it is unhealthy is drained; of a claimed one people are told, and nothing is done to it (I2).
//
// # Claims
//
// An agent asks, and waits, for a claim other than the one it knows. What it is told is read from the database at that
// moment, never carried by a message: a claim that was made while nobody listened is answered to the first question. The
// hub only shortens the wait. It is woken by claims of its own replica, by a hint from others, by the news that hints may
// have been lost, and by a ticker (I9).
//
// # Silence
//
// An agent is silent when its last report is older than its template allows. The watcher acts on that only where it is
// sure to have been able to hear (A2): it has watched without an error for longer than that time, and it is not most
// agents at once that are silent. A ready workspace goes back to starting, to be ready again with its agent's next
// report, or to fail with the boot timeout; the fourth time it is drained. Of a claimed one people are told.
package instance
