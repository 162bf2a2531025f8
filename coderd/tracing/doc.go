// Package tracing follows one cause through processes: from the request or the tick, over the pass that it led to, to the
// jobs that the pass ordered and the calls of the provider. It is off unless the standard environment of OpenTelemetry
// says where traces go.
//
// Between processes the trace travels in rows: a traced transaction says so once (Carry), every job that it inserts takes
// the trace from there, and whoever leases the job goes on with it (Continue). Where traces are off this costs nothing,
// not even a statement.
//
// No span has a secret, a parameter or anything that people wrote in it: names, ids, counts and outcomes only.
package tracing
