// Package sizingtest makes the traces of claims that sizes are judged by, each from a seed and the parameters in shapes.go.
//
// It was written, with its parameters and all seeds, before there was anything to judge, so that no trace could be chosen to
// suit a sizer. The rules of the game:
//
//   - Tuning may look at the Office shape under TuningSeeds, and at nothing else.
//   - What is judged is Office, CI and TwoOffices under JudgingSeeds: mean and worst.
//   - Promised came later, with HeldOut, before the work on the promise that they hold: see there.
//   - A trace begins on a Monday at 00:00 UTC and lasts Days; who sizes it knows nothing before that instant, and of later
//     ones only what has happened so far.
//   - A workspace takes ProvisionTime to provide.
//
// A change of shapes.go or seeds.go makes earlier results worthless: the golden digest in the test says when that happens.
package sizingtest
