// Package hosts makes workspaces of a fleet of machines that exist beforehand and are reached by SSH. A script prepares a
// machine for its workspace, and another resets it before the next may have it.
//
// Whose a machine is, the machine itself says: in a file that is replaced atomically under a lock of the machine's, so that
// neither two replicas nor two installations prepare it at once, and no database needs to be asked to know what must not
// be touched. Its phases:
//
//	clean      unused: never used, or reset with proof. No file at all is clean too
//	preparing  the workspace's directory is made and `prepare` runs
//	prepared   it is over; `check`, if there is one, says whether the workspace is ready
//	failed     prepare failed
//	resetting  the way out: reset, end all processes, remove the directory, prove it (-> clean)
//	renewing   the same on the way to the next incarnation of the same workspace (-> preparing)
//	dirty      a reset failed: nobody gets this machine until one succeeds
//	wiping     proven; scripts and environment are being removed
//
// What takes long is done by a process of the machine's own that outlives the session which began it. It holds a lock for
// as long as it works, by which one that died is told from one that works. So a connection that is cut, or a replica that
// is killed, interrupts nothing and leaves nothing half done: whoever asks next finds the state, and starts what is not
// being worked on.
//
// A workspace with an agent has it started when it is prepared, by a process of the machine's own too, and again by whoever
// finds that it does not run: a question for readiness, or a listing. So it comes back after a restart of the machine. Its
// program is copied to the machine once, under its hash as its name; a reset removes what is not what its name says.
//
// The proof of a reset: the script for it succeeded; no process has the incarnation's mark in its environment; the
// workspace's directory is gone; and `proof`, if the template has one, agrees. Whatever is not proven leaves the machine
// dirty, which is possibly used and never unused (S2).
package hosts
