// Command inner is what a test has on its machines in place of the prewarm binary: as the agent it writes down what it was
// given, and lives until it is ended, or ends as the file "exit" in the workspace's directory says.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] != "agent" {
		os.Exit(2)
	}
	if status, err := os.ReadFile("exit"); err == nil {
		fmt.Println("the agent ends: " + string(status))
		os.Exit(3)
	}
	token, err := os.ReadFile(os.Getenv("PREWARM_AGENT_TOKEN_FILE"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// Its children outlive it, as those of on_start may.
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	said := fmt.Sprintf("%s %s %s", os.Getenv("PREWARM_AGENT_URL"), strings.TrimSpace(string(token)), os.Getenv("PREWARM_WORKSPACE"))
	if file := os.Getenv("PREWARM_AGENT_CA_FILE"); file != "" {
		authorities, _ := os.ReadFile(file)
		said += " " + strings.TrimSpace(string(authorities))
	}
	begun, _ := filepath.Glob("begun-*")
	name := fmt.Sprintf("begun-%d", len(begun))
	if err := os.WriteFile(name+".new", []byte(said+"\n"), 0o600); err == nil {
		_ = os.Rename(name+".new", name)
	}
	time.Sleep(time.Hour)
}
