// Command runner is a runner of the fake forge, for templates of tests: it reads its configuration from the file that
// PREWARM_RUNNER_JITCONFIG_FILE names, or from its files in the directory PREWARM_RUNNER_HOME, or registers with the token in
// PREWARM_RUNNER_TOKEN_FILE, does one job, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func run(ctx context.Context) error {
	if file := os.Getenv("PREWARM_RUNNER_JITCONFIG_FILE"); file != "" {
		return forgetest.Runner(ctx, file)
	}
	if dir := os.Getenv("PREWARM_RUNNER_HOME"); dir != "" {
		return forgetest.RunnerIn(ctx, dir)
	}
	token, err := os.ReadFile(os.Getenv("PREWARM_RUNNER_TOKEN_FILE"))
	if err != nil {
		return xerrors.Errorf("read token: %w", err)
	}
	labels := strings.Split(os.Getenv("PREWARM_RUNNER_LABELS"), ",")
	return forgetest.RunnerWithToken(ctx, os.Getenv("PREWARM_RUNNER_URL"), strings.TrimSpace(string(token)),
		os.Getenv("PREWARM_RUNNER_NAME"), labels)
}
