package engine_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
)

// serveVariable makes this binary a server with a pace of its own.
const serveVariable = "PREWARM_ENGINE_SERVE"

// lease is that of jobs in such a server: so short that a test need not wait for long for what a killed one held.
const lease = 4 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	e2etest.Main(m)
}

// serve is `prewarm server` in this binary, but for the pace of its inventories and leases.
func serve() error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	opts := coderd.Options{Stdout: os.Stdout, Version: "test"}
	flags.StringVar(&opts.Listen, "listen", "", "")
	flags.StringVar(&opts.DataDir, "data-dir", "", "")
	flags.StringVar(&opts.Replica, "replica", "", "")
	flags.StringVar(&opts.PostgresURL, "postgres-url", "", "")
	flags.DurationVar(&opts.Tick, "tick", 0, "")
	if err := flags.Parse(os.Args[2:]); err != nil { // after the name of the command
		return err
	}
	opts.Hooks = &coderd.Hooks{Lease: lease, Inventory: func(o *inventory.Options) {
		o.Every, o.Soon, o.Grace = 500*time.Millisecond, 500*time.Millisecond, time.Second
	}}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	return coderd.Run(ctx, opts)
}

// rounds is how much of something is done, and whether that is more than CI does.
func rounds(t *testing.T, few int) (n int, thorough bool) {
	t.Helper()
	given := os.Getenv("PREWARM_ROUNDS")
	if given == "" {
		return few, false
	}
	n, err := strconv.Atoi(given)
	require.NoError(t, err, "PREWARM_ROUNDS")
	return n, n >= 100
}

// random is the test's source of randomness.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("PREWARM_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, "PREWARM_SEED")
	}
	t.Logf("PREWARM_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// patience is how long anything may take that takes seconds on an idle machine; only a hang takes longer. With the pace of
// the released binary it takes minutes.
const patience = 3 * time.Minute

// eventually polls until nothing is missing any more.
func eventually(t testing.TB, what string, most time.Duration, missing func() string) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(most); ; <-ticker.C {
		why := missing()
		if why == "" {
			return
		}
		require.True(t, time.Now().Before(deadline), "%s: not after %s: %s", what, most, why)
	}
}
