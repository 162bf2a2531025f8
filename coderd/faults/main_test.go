package faults_test

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
)

const (
	// lease is so short that a test need not wait for long, and so long that a busy machine keeps what is alive alive.
	lease = 4 * time.Second
	// atOnce is how many worlds are run side by side: they mostly wait for leases to end.
	atOnce = 8
)

func TestMain(m *testing.M) {
	if os.Getenv(stopVariable) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	e2etest.Main(m)
}

// serve is `prewarm server` in this binary, which stops where it was told to.
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
	w, err := newWitness()
	if err != nil {
		return err
	}
	opts.Hooks = &coderd.Hooks{Lease: lease, Tracer: &tracer{witness: w}, Wrap: w.wrap}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	return coderd.Run(ctx, opts)
}

// thorough is how much is to be done, and whether that is more than CI does.
func rounds(t *testing.T, otherwise int) (n int, thorough bool) {
	t.Helper()
	given := os.Getenv("PREWARM_ROUNDS")
	if given == "" {
		return otherwise, false
	}
	n, err := strconv.Atoi(given)
	require.NoError(t, err, "PREWARM_ROUNDS")
	return n, true
}

func random(t *testing.T) (*rand.Rand, uint64) {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("PREWARM_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, "PREWARM_SEED")
	}
	t.Logf("PREWARM_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}
