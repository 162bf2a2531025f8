// Package states keeps the states of Terraform: sealed, versioned, and written by one run at a time. The API serves them as
// Terraform's backend `http`, on every replica.
//
// # Runs
//
// A run is one attempt of a worker at a job. It has a token of its own, whose hash is in the run's row. The token is good
// while the attempt holds its job and no later run of the workspace has begun. Each write locks the row first, and names
// the token: a worker that woke up late finds no row and writes nothing, and the next run begins after a write that was
// under way. So each run begins with the state as far as the run before has stored it.
//
// # Locks
//
// Terraform locks a state before it plans from it. The lock is in the run's row: it ends with the run, so that one whose
// holder was killed is in nobody's way. Two processes of one run exclude each other. Only who holds the lock may write.
//
// # Applies
//
// Terraform stores a state after it has made things. So a run stores the addresses that its apply is to create before it
// begins. Each write of a state takes away those that it names, and the end of the apply takes the rest. What is left is of
// an apply that was cut off: it may exist, and no state names it (I4). It stays through later runs, and is forgotten when a
// person ends the workspace. Where there is none, as of a check, it is forgotten after a week.
//
// # Versions
//
// Each write adds a version. Retention keeps the newest five of each workspace, and deletes all of them a week after the
// workspace was deleted: after a deletion by force they say what is left. A state with an older serial than the newest is
// refused, since a request may be overtaken. The same state again adds nothing, since an answer may be lost.
//
// # Archives
//
// The files of a module may be in an archive that people have uploaded (coderd/modules). It is stored once for each organization, under
// its digest. An apply sees that its organization has what a version names. Retention deletes what no version names, and with which no
// workspace was made, a day after it was last used. The run's row names the archive for that.
//
// # Output
//
// What Terraform said is kept for as long as the run's row: the last 256 KiB of each workspace, without secrets.
package states
