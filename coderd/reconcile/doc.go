// Package reconcile keeps every preset at its desired number of prebuilds: the tick, the nudges and the pass (DESIGN
// section 3).
//
// A pass is one REPEATABLE READ transaction that takes an advisory lock, advances the fence, reads a snapshot, plans
// every preset purely (coderd/prebuilds) and writes the result as rows: new workspaces with their create jobs, intents
// for those that are to go or to move between tiers, the status of presets whose decision changed, and what the next
// pass counts with. It writes no row that a claim locks, so claims and passes neither wait for nor abort each other. A
// crash anywhere leaves all of a pass or nothing.
//
// Every replica runs one Reconciler. It ticks, and between ticks it serves nudges: hints, without state, that a template
// needs a pass now. A nudge goes to this process at once and to the others by NOTIFY; whoever gets the lock first serves
// it, and the others drop it when they see that a pass over its template began after it. Losing a nudge costs at most
// one tick (I9).
//
//	reconciler.go  the loop: what is pending, what to try next, when to try again
//	pass.go        one pass from lock to commit
//	snapshot.go    rows to the planner's snapshot
//	apply.go       plans to rows
//	nudge.go       nudges from here and from other replicas
//	watchdog.go    ends the backend of a replica that froze while holding the lock
package reconcile
