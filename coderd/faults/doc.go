// Package faults has the tests of what workers and providers may suffer without anything getting stuck, leaking or being
// made twice (I4, I5, I6; G3 to G5). It holds no code of its own.
//
// TestPoints stops a real server process at one point of a workspace's life, such as between the provider's answer and
// the statement that records it, and there kills it (SIGKILL) or freezes it (SIGSTOP) past its leases. Another process
// then does the work. A frozen one wakes when all is done, and goes on where it was: its next statement is sent and its
// next call is made whatever its clock says, as the worst moment to freeze would have it. Resources are files of the
// `sim` provider, so that they outlive the process that made them.
//
// The processes are this test binary, which runs coderd.Run: what stops it is a tracer of its statements and a wrapper
// around its providers, for which the product has no flag.
//
// TestLies lets a provider fail, hang and lie while hundreds of workspaces live and die.
//
// A third of the points is run, by a seed that is printed (PREWARM_SEED repeats it); with PREWARM_ROUNDS set all are, and
// so many lives instead of 300.
package faults
