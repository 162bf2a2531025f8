// Package local is the provider whose workspaces are directories and processes of the machine that the server runs on
// (Linux only). It needs nothing but a directory, and it is complete: what it makes outlives the server, and what it
// deletes is gone.
//
// # On disk
//
//	<root>/                        mode 0700
//	    <name>/                    one workspace
//	        workspace.json         the tag: whose it is, what was asked for; written once, before the directory appears
//	        state.json             what the supervisor last recorded
//	        lock                   held by the supervisor for its life: that is how one knows that it lives
//	        agent/                 agent-token, which the agent shows to the server, where there is one; mode 0700
//	        exec                   a socket on which the supervisor takes commands
//	        passwd, group          what is in /etc of these names inside, where the workspace has a user of its own
//	        log, log.1             what setup and command wrote, 10 MB each at most
//	        home/, tmp/            the workspace's own: working directory and HOME, and TMPDIR
//	    .prewarm/
//	        site                   the identity of this root
//	        locks/<name>           held while a workspace is made, entered or deleted
//	        ports/<port>           a symbolic link to the name that has the port
//	        uids/<uid>             a symbolic link to the name that has the user id
//	        aside/<name>           a directory not yet, or no longer, at its place
//
// A directory without a valid workspace.json is not ours and is never touched.
//
// # Processes
//
// Each workspace has a supervisor: this same binary, started again in a session of its own, so that neither the end of
// the server nor kill -9 of it matters to the workspace. It runs setup, then command, and what Exec asks for, and reaps
// all that descends from them. The workspace lives as long as its command, as a container does: when that ends, the
// supervisor ends the rest.
//
// # Isolation
//
// The supervisor is the first process of a PID namespace. Whatever the others do (new sessions, double forks, namespaces of
// their own, SIGSTOP), they cannot leave it, and when its first process ends, however that comes, the kernel kills them all.
// A mount namespace shows them /proc of that namespace alone, and hides the root and the server's data directory, but for
// the workspace itself.
//
// A server that is root gives each workspace a user id that nobody else has, and another to its next incarnation;
// allow_root turns that off. A server that is not root isolates workspaces by a user namespace in which its user stays who
// it is. Where the kernel refuses that, workspaces run without (Provider.Isolated says why), are not reset for another
// user, and get no secrets; a server that is root then runs none.
//
// Without namespaces the supervisor is the reaper of what descends from it (PR_SET_CHILD_SUBREAPER): a process that
// daemonises is still its child, and when wait says that there is no child, nothing of the workspace is left. Only if it is
// killed itself do others have to be found by what they cannot hide as easily.
//
// Where the template has an agent, command runs under it: the agent is the main process, started from this same binary,
// and ends with the command and by its exit status. Setup runs before there is one.
//
// # What may happen at any point, and what comes of it
//
//   - The server is killed while it creates. The directory is prepared aside and renamed into place, so it is whole or
//     absent; what is left aside goes with the next Create or Delete of that name. The lock of the name is handed to
//     the supervisor, which holds it until it has recorded itself: nobody can come between the two.
//   - The supervisor is killed. The kernel kills all of an isolated workspace with it. Else it kills the supervisor's
//     child (Pdeathsig), and the rest is found by PREWARM_MARK in its environment, or by the supervisor's session, and
//     killed by the next Get, Ready or Delete. The workspace is StatusError from the moment the lock is free. So it is
//     after the machine restarted.
//   - Two processes on one root do the same thing. One has the lock of the name, the other finds what the first made.
//
// Locks are open-file-description locks: they belong to an open file rather than a process, so that they can be handed
// over, they vanish with their holder, and whether one is held can be asked without taking it.
package local
