// Package e2etest runs the binary itself inside tests: any number of `prewarm server` processes on a database of
// dbtest, each with a data directory, a replica name and a free port of its own, and a client that speaks as the owner.
//
// The binary is built once per test process, and removed by Main. PREWARM_TEST_BINARY names one that is built already, so
// that a run over many packages builds it once:
//
//	func TestMain(m *testing.M) { e2etest.Main(m) }
//
//	servers := e2etest.StartAll(t, 3, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond})
//	claim, err := servers[0].Client.Claim(ctx, sdk.ClaimRequest{Template: "a", Preset: "default", Mode: "require"})
//
// No server outlives its test: each is killed at the test's end, and by the kernel if the test process dies before.
package e2etest
