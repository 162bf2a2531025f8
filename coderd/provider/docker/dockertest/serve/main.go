// Command serve is a container engine as a process, for tests that are not written in Go: it prints the engine's address,
// and removes the engine with all containers when its standard input ends. It needs root and dockerd.
package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run() error {
	engine, err := dockertest.New()
	if err != nil {
		return xerrors.Errorf("start engine: %w", err)
	}
	defer engine.Remove()
	fmt.Println("The engine is at", engine.Host)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return xerrors.Errorf("wait for the end of stdin: %w", err)
	}
	return nil
}
