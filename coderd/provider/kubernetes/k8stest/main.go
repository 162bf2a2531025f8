package k8stest

import (
	"fmt"
	"os"
	"testing"
)

// shared is what all tests of a binary use.
var shared *Cluster

// Main runs the tests of a package on one cluster, which ends with them: m is a *testing.M, or what runs one.
func Main(m interface{ Run() int }) {
	if os.Getenv(FolderVariable) == "" {
		fmt.Fprintln(os.Stderr, "the tests with a real Kubernetes need its parts: run make k8s-binaries once, then make k8s-e2e")
		if ci := os.Getenv("CI"); ci != "" && ci != "false" {
			os.Exit(1) // what tests need must be there
		}
		return
	}
	var err error
	if shared, err = New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	func() {
		defer shared.Remove()
		code = m.Run()
	}()
	os.Exit(code)
}

// Shared is the one cluster of the test binary.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if shared == nil {
		t.Fatal("the package's TestMain must call k8stest.Main")
	}
	return shared
}
