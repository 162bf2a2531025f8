// Command suitetest runs the project's tests: `make quick`, `make test`, `make test-long` and the CI list are each a
// plan, a fixed list of named steps.
//
// All steps of a run share one PostgreSQL server (PREWARM_TEST_POSTGRES_URL; each test has a database of its own in it)
// and one build of the binary (PREWARM_TEST_BINARY). Some steps run beside others, and what they print comes at the
// end. A step that fails stops no other. At the end a table has the outcome and the time of each step, and says where
// the plan took longer than it should: being slow is printed, and never fails a run.
package main
