// Package prebuilds decides. Given everything that bears on the pools at one instant, it says which workspaces to
// create and which to let go, and why. It does nothing else: no context, clock, logger, network or SQL comes near it,
// so the same rows always give the same plan, a simulation can ask it a million times, and what it answers is the whole
// truth that `explain` shows.
//
// # One pass
//
// A pass (coderd/reconcile) reads a Snapshot, which carries its own Now, and calls
//
//	Snapshot.ByPreset   group the unclaimed workspaces by preset, once, linear in rows
//	Snapshot.DecidePreset per preset, in parallel: counts, creates, intents, and the ledger of how they came about
//	Clamp               over presets: what the providers' limits leave of the creates, and who goes first
//
// and writes the plans as rows. Snapshot.Decide does all three in sequence, for `explain`, `prewarm plan` and tests. Every
// limit is applied here and entered in the ledger: a limit hidden in whoever carries out the plan would make the ledger
// lie.
//
// # The classes
//
// Every unclaimed workspace of a preset is in exactly one class. The first that fits, in this order:
//
//	deleting     state deleting
//	stopping     state draining, or with an intent, whatever the state
//	quarantined  state quarantined
//	outdated     its pool key is not the preset's
//	expired      past its TTL
//	starting     provisioning or starting
//	actual       ready or standby
//
// Starting and actual are what the preset has. The others are on their way out, and none of the planner's business but
// for outdated and expired, which it sends there. Eligible cuts across: it is what a claim would take at this instant,
// and a claim wins over an intent (I2), so one with an intent still is eligible. Extraneous is a part of starting and
// actual, what they exceed the wanted number by.
//
// # The rules
//
//   - C4: a retired preset (template deprecated or deleted, preset removed) wants nothing, and lets everything go.
//   - C5: create = desired + waiting (claims, and jobs: P3) − (actual + starting), at least 0. Work in flight is counted, never waited for.
//   - C6: the extraneous go not-ready first, then oldest; ties by id, so that each replica chooses the same.
//   - C7: an outdated ready one goes only when a current one is ready in its place: actual plus the outdated ready ones
//     that are kept never falls below desired less max_unavailable by our doing, and both with what is being made never
//     exceed desired and max_surge. Of a version that never worked a few are made first; if these fail, or take too long,
//     the rollout stops and the old pool stays (rollout.go).
//   - C8: after a failed create the next ones wait 5 s, after two in a row 10 s, at most 5 min; after three (HardLimit)
//     that a retry cannot mend there are none until the version changes or a person resets it (failures.go). Waiting
//     claims obey too; drains are never held back by it.
//   - C9: a schedule comes before instances (desired.go). An expired one is not eligible, so keeping it helps nobody: it
//     goes at once, and C5 replaces it. Ahead of it a quarter of desired is made on top (renewal.go).
//   - C10: a pause stops creates and intents. The counts go on, and the ledger says what is held back.
//   - C11: outdated ones that are not ready go at once, a pending create by an intent of kind cancel.
//   - C17: of desired so many run as the preset's tier says, and one for each claim that waits; the others are stopped
//     (standby.go). Claims take running ones first.
//   - P1: of a forge that is stopped no runner is made; where it drains too, the preset is retired (runners.go).
//   - P3: of a preset of runners each queued job wants one on top of desired (runners.go). P7: one that its forge says is at
//     a job never goes, and is neither surplus nor lacking until its claim takes it out of the pool. P8: of surplus runners
//     half goes each minute; retired, outdated and expired ones go as all do. S4: their own maximum holds creates back.
//   - S4, S5: Clamp keeps the creates within each provider's maximum and chunk, by priority, then emptiest pool first.
//
// What is wrong with one preset's rows is an error of that preset: the plans of the others are made all the same.
//
// # Time
//
// Plan.RetryAt is the earliest instant at which the same rows could give another plan: the end of a backoff, the next
// expiry, the next half of a surplus. Until then a plan is equal to the last one to the byte, so a pass that finds nothing new writes nothing.
//
// # Trust
//
// Check holds the invariants in executable form, written without the planner's code, so that tests and the simulation
// judge every plan by the same measure. States and their transitions are data (Transitions); docs/STATE_MACHINE.md is
// checked against it.
package prebuilds
