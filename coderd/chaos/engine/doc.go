// Package engine has the tests of what happens to a container engine behind the server's back, with the real thing: a
// dockerd of their own, PostgreSQL, and server processes. It holds no code of its own.
//
//	TestActs           somebody removes, stops, kills, pauses and renames containers, starts foreign ones and some that
//	                   look like ours, and the engine itself goes away, while users claim and release (I2, I4, I6, S1 to S6)
//	TestWedge          the server is killed between the engine's create and its own record of it (I4, I6)
//	TestInstallations  two installations churn on one engine, and neither sees the other's (S6)
//
// What is true is taken from the engine itself, over a connection of the test's own.
//
// In CI the processes are this test binary, which runs coderd.Run with inventories that follow each other in a second
// instead of a minute, and 25 acts are done. With PREWARM_ROUNDS=200 it is the released binary, with nothing but what a
// configuration can say, 200 acts, and an engine that is away for a minute. The seed is printed; PREWARM_SEED repeats it.
package engine
