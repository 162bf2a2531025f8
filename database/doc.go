// Package database is the way to PostgreSQL: the pool, the transactions, the migrations, and the types of rows and
// columns that rooms share.
//
// The statements are in packages below it, one for each folder of queries/, as sqlc generates them: claimdb, workspacesdb
// and so on. A room opens the statements of its group on a Store, on the transaction that InTx gives it, or on whichever
// of the two its caller has, a DBTX. coderd/imports_test.go says which room may open which group.
//
// Three rules hold for every access:
//
//   - A statement on the Store runs alone, in its own transaction in READ COMMITTED.
//   - Several statements that belong together run in Store.InTx. It reruns its function when PostgreSQL says that the
//     transaction lost against another one (40001, 40P01), so the function must have no effect but on the database and
//     on variables it sets anew each time. What happens after the commit (a nudge, a wake-up) follows the call.
//   - Nothing but PostgreSQL is called inside a transaction (I8). The context that InTx passes on carries a mark, and
//     whoever calls a provider or another network service refuses a context with InTransaction.
//
// Errors are told apart with the functions of errors.go, never by text. A commit whose answer was lost is
// ErrCommitUnknown: neither done nor undone as far as anybody knows, so only a caller who can look may go on.
//
// Every session works in UTC, with time-outs for statements and locks, and without JIT: compiling a plan costs more
// than any query here takes, and wrong row estimates make it compile.
//
// Below it: pubsub carries hints between replicas, embedded runs a private PostgreSQL for the server, dbtest gives each
// test a database of its own.
package database
