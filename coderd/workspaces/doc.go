// Package workspaces is the only writer of workspace state: one function for each row of the table in DESIGN section 4
// (docs/STATE_MACHINE.md), each of them one UPDATE whose WHERE names the state and incarnation it leaves, with the job
// that follows and a row of history in the same statement.
//
// A transition finds its row or it does not. If not, somebody was faster: ErrLost, an expected outcome that the caller
// drops without a trace. Transitions that end provider work name the lease they were given (job and attempt, I5), so
// that a worker whose lease was taken over changes nothing.
//
// Locks are taken in one order: workspace, then job. Who binds a waiting claim locks that claim, then a workspace that
// nobody else holds. Nothing here calls a provider, and nothing here decides: a pass, a worker or a person already has.
package workspaces
