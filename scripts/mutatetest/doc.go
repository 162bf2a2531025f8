// Command mutatetest changes one operator, constant or condition of a room at a time, in Go or in the room's SQL, and shows
// which changes no test notices: `make mutate`.
//
// The changes that are possible are found in the source, and a sample of them is drawn by a seed, so that the same seed
// tries the same ones on the same tree. The tree itself is left alone: `go test -overlay` reads the changed file from
// elsewhere. Each test of a room runs on its own first, with a profile of what it runs, so that a change is judged by just those
// that run it. Each outcome is a line of a file at once; what has a line there is not tried again, so that a run can end at
// any time and go on later.
//
// Where they all pass, some rooms have whole worlds asked too: 20 seeds of the simulation, or 20 replays, as `make test` runs them.
//
//	killed        a test failed, or did not end in time
//	survived      all those tests passed
//	not reached   no test of the room runs it: a survivor, too
//	no build      it does not compile, and says nothing
package main
