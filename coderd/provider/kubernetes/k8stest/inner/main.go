// Command inner is what a test has in its pods in place of the prewarm binary: it copies itself as that does, and runs a
// command as the agent does, without any server.
package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes"
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == kubernetes.InstallCommand:
		os.Exit(kubernetes.RunInstall(os.Args[2:], os.Stderr))
	case len(os.Args) > 3 && os.Args[1] == kubernetes.AgentCommand && os.Args[2] == "--":
		token, err := os.ReadFile(os.Getenv("PREWARM_AGENT_TOKEN_FILE"))
		if err == nil {
			err = os.MkdirAll(os.Getenv("PREWARM_AGENT_DIR"), 0o700)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("agent of", os.Getenv("PREWARM_AGENT_URL"), "with", len(token), "bytes")
		err = syscall.Exec(os.Args[3], os.Args[3:], os.Environ())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	default:
		os.Exit(2)
	}
}
