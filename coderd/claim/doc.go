// Package claim hands prebuilds to their users (DESIGN section 6).
//
// Claims that come at the same time share a batch (batch.go): one statement that picks the oldest ready workspaces of
// their pools, marks them, and writes claims, history and audit. Each request has one place in a batch, and only itself to
// fail. Floors (floors.go) keep the scan off what was claimed before. Before a miss is answered, the pool is asked once
// more for that claim alone, from the very beginning and without skipping rows that others are at. A claim
// that may wait then stands in line: its row is committed before the pool is tried again, passes count it as demand, and
// the transition to ready binds the oldest in line. Who waits is woken by notification, and looks for itself now and
// then, since a notification may be lost.
//
// A claim is never undone, only released. A client that goes away while it waits leaves the line; if it was given a
// workspace in that very moment, it keeps it under its idempotency key, or without one gives it back, for nobody was
// told of it. One that was gone before its claim was made gets nothing (decision 49).
package claim
