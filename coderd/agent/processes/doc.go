// Package processes runs commands inside a workspace for its user, and serves them over HTTP: the workspace's end of the data
// plane. It knows no server and no token: a caller that reaches its handler may run anything.
//
// A process is a row of a table. It goes on when its client goes, keeps the last 1 MiB of its output, and can be attached to
// by offset. What is run over the WebSocket of /exec is no row: it ends with its client, as its protocol says.
//
// All processes are of one claim. A request of another claim, and Close, end them.
package processes
