// Command sitetypes writes the TypeScript types of the API for the web UI, site/src/generated/api.ts, out of the OpenAPI
// document that the server serves. `make gen` runs it through its test, and `make test` fails where the file is not current.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/api"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sitetypes:", err)
		os.Exit(1) //nolint:forbidigo // This is main.
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return xerrors.New("usage: sitetypes FILE")
	}
	source, err := generate()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Clean(args[0]), []byte(source), 0o600); err != nil {
		return xerrors.Errorf("write types: %w", err)
	}
	return nil
}

func generate() (string, error) {
	document, err := api.Document("")
	if err != nil {
		return "", xerrors.Errorf("describe API: %w", err)
	}
	return typescript(document)
}
