// Package chaos has the tests that hurt the real binary: its server and its PostgreSQL are killed, frozen and stopped at
// random moments, it is given wrong input, and it is used as a newcomer would. It holds no code of its own.
//
// The rules behind it are I7 (no acknowledged claim or release is lost by killing any process at any point), I6 (with
// faults over, every preset converges), I1, I2 and I5. What is true is taken from outside: what a client was told, which
// processes and directories the machine has; the database is asked only for its history.
//
// Everything random comes from one seed, which is printed; PREWARM_SEED repeats it, as far as the machine's timing does.
// PREWARM_ROUNDS sets how often something is killed: 6 by default, 50 for the figures in docs/reliability.
package chaos
