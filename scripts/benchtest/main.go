// Command benchtest measures Prewarm beside a yardstick on the same server in the same run (`make bench`), and prints
// one line for each figure:
//
//	name value unit ratio yardstick
//
// The yardstick of claims is pgbench's simple update on the same PostgreSQL with the same durable settings; where
// pgbench is missing, the same statements sent by a bare pgx loop. What is measured and its yardstick take turns, and
// the figures are medians: on a shared machine only their ratios mean anything. A figure without a yardstick has a dash
// for its ratio.
//
// It lives in a folder for tests, since it sends SQL of its own and reads the wall clock.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

type bench struct {
	*cluster
	rounds  int
	quick   bool
	sql     string // run on each database of Prewarm
	binary  string // of prewarm; built when first needed
	scratch string
	su      map[int][]sample // by clients: simple updates measured so far
}

var groups = []struct {
	name, what string
	run        func(context.Context, *bench) error
}{
	{"claims", "claims through the store and through HTTP, by clients, pools and what stands beside", claims},
	{"tune", "claims through the store by 32 clients, alone: to see what -sql changes; only where asked for", tune},
	{"latency", "claims at half the peak rate, open loop", openLoop},
	{"snapshot", "claims while another session holds a snapshot", openSnapshot},
	{"passes", "idle passes, beside a bare read of the same rows", idlePasses},
	{"creating", "passes that create prebuilds", creatingPasses},
	{"refill", "from a claim to the lease of the job that replaces it", refill},
	{"mixed", "claims while passes, creates and deletes run", mixed},
	{"failover", "a nudge that is pending when the holder of the pass's lock dies", failover},
	{"memory", "resident memory of a replica", memory},
	// Events to 500 connected pages belong here once there is a stream of them.
}

func main() {
	only := flag.String("only", "", "groups to run, separated by commas; all where empty")
	quick := flag.Bool("quick", false, "short rounds and small fleets, to see that everything works")
	rounds := flag.Int("rounds", 0, "how often each measurement is taken (3, or 1 where quick)")
	profile := flag.String("profile", "", "write a CPU profile of this process to that file")
	sql := flag.String("sql", "", "statements to run on each database, to see what they change")
	list := flag.Bool("list", false, "list the groups")
	flag.Parse()
	if *list {
		for _, g := range groups {
			fmt.Printf("%-10s %s\n", g.name, g.what)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *quick, *rounds, *profile, *sql); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // The context's resources end with the process.
	}
}

func run(ctx context.Context, only string, quick bool, rounds int, profile, sql string) error {
	wanted := regexp.MustCompile("^(" + strings.ReplaceAll(only, ",", "|") + ")$")
	scratch, err := os.MkdirTemp("", "prewarm-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.Chmod(scratch, 0o755); err != nil { // PostgreSQL may run as another user
		return err
	}
	b := &bench{quick: quick, rounds: rounds, scratch: scratch, sql: sql, su: map[int][]sample{}}
	if b.rounds == 0 {
		b.rounds = 3
		if quick {
			b.rounds = 1
		}
	}
	if b.cluster, err = startCluster(ctx, scratch); err != nil {
		return err
	}
	defer b.stop()
	stopProfile, err := startProfile(profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	for _, g := range groups {
		if only == "" && g.name == "tune" || only != "" && !wanted.MatchString(g.name) {
			continue
		}
		began := time.Now()
		if err := g.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		fmt.Fprintf(os.Stderr, "# %s took %s\n", g.name, time.Since(began).Round(time.Second))
	}
	return nil
}

// window is how long one measurement takes.
func (b *bench) window() time.Duration {
	if b.quick {
		return 2 * time.Second
	}
	return 5 * time.Second
}
