// Package storm has the test that lets everything go wrong at once, for as long as one likes: three `prewarm server`
// processes over one PostgreSQL, clients that claim at a rate of their own whatever the answers, and a seeded schedule
// of faults. It holds no code of its own.
//
//	replicas    killed, frozen, restarted in order, rolled to the binary before the newest migration and back
//	PostgreSQL  killed, frozen, restarted, its disk filled
//	network     connections to the database and from clients cut, reset, slowed, or swallowed without a word
//
// The network is toxiproxy's, one proxy before each replica and one between each replica and the database. The provider
// is the sim, in files, and its journal is read as it grows. What was wrong is for package judge to say.
//
// PREWARM_SEED repeats a schedule, PREWARM_CHAOS sets how long faults are made (a duration; 2m by default). Where the
// test can't fill a disk (it takes root to make a small one) or can't build the binary before (in a shallow clone), it
// says so and leaves that fault out; with PREWARM_CHAOS_COMPLETE, as in `make chaos`, the second is an error.
package storm
