package rules

// Exception is a file that may break a rule, and why.
type Exception struct {
	Rule, File, Why string
}

// Allowed are the exceptions. One that is no longer needed fails the test, as does one without a reason.
var Allowed = []Exception{
	{"background", "cmd/prewarm/main.go", "the root of every context: it ends with the signal"},
	{"background", "coderd/claim/abandon.go", "gives back a claim after its request is over; bounded by lastWords"},
	{"background", "coderd/coderd.go", "the greeting in the log is said even while the replica is being stopped"},
	{"background", "coderd/database.go", "stops PostgreSQL when the replica's context has ended already"},
	{"background", "coderd/tracing/tracing.go", "a header is read out of a context, which is nobody's"},
	{"background", "coderd/tracing/export.go", "the SDK complains without a context"},
	{"background", "coderd/alerts/gauges.go", "a prometheus.Collector is given no context; bounded by readTimeout"},
	{"background", "database/embedded/cluster.go", "supervision lasts until Stop, longer than the call that starts it"},
	{"background", "database/embedded/output.go", "log lines of PostgreSQL belong to no call"},
	{"clock", "coderd/tree/leftovers.go", "the system says by its own clock when a file was written"},
	{"background", "coderd/tunnel/service.go", "a tunnel outlives the request that it came by, whose values would stay in memory with it"},
	{"programs", "coderd/provider/external/externaltest/reference/boot.go", "a program of its own, which begins nothing else meanwhile"},
	{"reasons", "coderd/provider/kubernetes/judge.go", "Kubernetes' reasons are codes: its messages are the words beside them"},
	{"background", "database/pubsub/listen.go", "hangs up on a peer that may be dead, and so waits for nothing"},
}
