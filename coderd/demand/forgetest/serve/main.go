// Command serve is the fake forge as a process, for tests that are not written in Go: it takes the token in FORGE_TOKEN,
// prints the address of its API, and ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// run serves the roots, such as orgs/acme.
func run(ctx context.Context, roots []string) error {
	f, err := forgetest.Start(ctx, forgetest.Options{Token: os.Getenv("FORGE_TOKEN"), Roots: roots})
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Println("The forge is at", f.API)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return xerrors.Errorf("wait for the end of stdin: %w", err)
	}
	return nil
}
