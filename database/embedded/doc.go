// Package embedded runs a private PostgreSQL for a server that was given no --postgres-url.
//
// What lies in the server's data directory:
//
//	postgres.lock     locked (flock) by the server that uses the directory, whose process id is in it
//	postgres/         the cluster, with its Unix socket in it; owned by whoever runs PostgreSQL
//	postgres.init-*   a cluster being made; it becomes postgres/ by one rename, so there is never half a cluster
//
// Binaries are those of one installed major version from 14 to 18. A cluster is only ever started by the version that
// made it: another one is refused, with what to do, and the files stay as they are.
//
// PostgreSQL refuses to run as root. A server that runs as root starts it as the owner of the cluster: the user
// postgres, or nobody. That user need not be able to reach the data directory (which may be below /root): PostgreSQL
// is handed the open folder and works from inside of it.
//
// There is no password. The socket lies in the cluster's own folder, of mode 0700, and there is no other way in: who
// gets to the socket could as well read and write the files. The server connects as the role prewarm, which owns the
// database prewarm and nothing more; the superuser is postgres.
//
// Life and death:
//
//   - The kernel sends SIGQUIT to PostgreSQL when the server dies, however it dies. Nothing is lost by that: the next
//     start recovers from the write-ahead log.
//   - A start first ends what the last run left behind (only possible where the kernel has no such service, or when
//     it was stopped with SIGSTOP) and waits until it is gone: postmaster, and those of its children that still hold
//     the shared memory.
//   - When PostgreSQL dies while the server lives, it is started again, with backoff, for as long as it takes. The
//     address stays the same, so that the pools of the server heal by themselves.
package embedded
