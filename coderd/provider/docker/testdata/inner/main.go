// Command inner is what a test has in its containers in place of the prewarm binary: it kills as that does, and runs a
// command as the agent does, without any server.
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == docker.KillCommand:
		os.Exit(docker.RunKill(os.Args[2:]))
	case len(os.Args) > 3 && os.Args[1] == docker.AgentCommand && os.Args[2] == "--":
		fmt.Println("agent of", os.Getenv("PREWARM_AGENT_URL"))
		cmd := exec.Command(os.Args[3], os.Args[4:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(2)
	}
}
