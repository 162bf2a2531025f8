// Package dockertest runs a container engine for tests: a dockerd of its own, which shares nothing with another engine on
// the machine nor with that of another test binary, and of which nothing is left afterwards.
//
// The daemon lives in a PID namespace and a mount namespace of its own. When the test process dies, however it dies, the
// kernel kills the first process of that namespace and with it everything in it: containerd, shims and containers; all
// mounts go with the mount namespace. It touches no firewall and no setting of the machine's network: there is no default
// bridge, and a test that wants a network makes one on a subnet of this engine's (Network).
//
//	func TestMain(m *testing.M) { dockertest.Main(m) }
//
//	engine := dockertest.Shared(t)            // one for all tests of the binary
//	engine := dockertest.Start(t)             // one for this test, which may stop it and start it again
//	image := engine.Image(t)                  // one static program, package guest
//	provider := docker.New(docker.Config{Host: engine.Host})
//
// It needs root, and dockerd, which scripts/docker.sh installs. Where either is missing a test is left out, but on CI
// (CI=true) it fails, with the end of the daemon's log.
package dockertest
