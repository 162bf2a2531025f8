// Package dbtest gives each test a migrated database of its own, on a real PostgreSQL, in tens of milliseconds.
//
// A test process starts one PostgreSQL when the first test asks, and every database is a copy of a migrated template
// in it. The cluster with the template in it is made once per PostgreSQL version and set of migrations, and kept in the
// user's cache folder; each process starts on a copy, with everything off that guards against a crash of the machine.
//
// Nothing is left behind: the kernel ends PostgreSQL together with the test process, however that ends, and then a
// shell that has waited for it removes the copy.
//
// With PREWARM_TEST_POSTGRES_URL set, to a role that may create databases, that server is used instead.
package dbtest
