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
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type bench struct {
	*cluster
	rounds  int
	quick   bool
	sql     string // run on each database of Prewarm
	scratch string // a directory
	ended   int    // claims that are over, of the group size
	asked   bool   // for certain groups: what cannot be measured then is an error
}

var groups = []struct {
	name, what string
	run        func(context.Context, *bench)
	most       time.Duration // 0: mostLasts
}{
	{"claims", "claims through the store and through HTTP, by clients, pools and what stands beside", claims, 14 * time.Minute},
	{"pools", "claims from 1,000 pools beside one, and what of the difference is PostgreSQL's own", pools, 5 * time.Minute},
	{"instructions", "what a claim from 1,000 pools takes beside one from one, in instructions of PostgreSQL; only where asked for", instructions, 30 * time.Minute},
	{"record", "100,000 ready workspaces claimed through HTTP, all of them and each once", record, 0},
	{"tune", "claims through the store by 32 clients, alone: to see what -sql changes; only where asked for", tune, 0},
	{"latency", "claims at half the peak rate, and at one that pgbench keeps up with, open loop", openLoop, 10 * time.Minute},
	{"snapshot", "claims while another session holds a snapshot", openSnapshot, 0},
	{"passes", "idle passes, beside a bare read of the same rows", idlePasses, 0},
	{"largest", "idle passes over up to 10,000 presets and 1,000,000 workspaces: time and memory", largest, 15 * time.Minute},
	{"creating", "passes that create prebuilds", creatingPasses, 0},
	{"refill", "from a claim to the lease of the job that replaces it", refill, 0},
	{"mixed", "claims while passes, creates and deletes run", mixed, 0},
	{"failover", "a nudge that is pending when the holder of the pass's lock dies", failover, 0},
	{"memory", "resident memory of a replica", memory, 0},
	{"tunnels", "resident memory of a replica with 10,000 idle tunnels, and claims beside them", tunnels, 12 * time.Minute},
	{"terraform", "claims of workspaces with a state of Terraform beside those of `sim`, and while 20 states of 20 MiB are written", terraform, 10 * time.Minute},
	{"docker", "claims of containers, running and stopped, beside a container run cold; left out where no engine can be started", containers, 20 * time.Minute},
	{"interactive", "from the request of a claim to the first output of a command in it, beside `docker run` and `docker exec`", interactive, 20 * time.Minute},
	{"forge", "jobs of a forge from queued to started, with warm and cold pools of runners, and on a bad day", forgeJobs, 25 * time.Minute},
	{"abuse", "what clients who mean harm cost: memory, and latency of the claims of others", abuse, 12 * time.Minute},
	{"level", "an hour of 20 claims and releases a second, and what grows; only where asked for", level, 2 * time.Hour},
	{"level-local", "the same on local; only where asked for", levelOfLocal, 2 * time.Hour},
	{"size", "retention, views and VACUUM of a fleet that has lived for years: -ended claims, twice as much history; only where asked for", size, 2 * time.Hour},
	{"events", "what 500 screens that follow 50 changes a second cost a replica", events, 0},
}

// askedFor are left out of a run of all.
var askedFor = []string{"tune", "level", "level-local", "size", "instructions"}

func main() {
	only := flag.String("only", "", "groups to run, separated by commas; all where empty")
	quick := flag.Bool("quick", false, "short rounds and small fleets, to see that everything works")
	rounds := flag.Int("rounds", 0, "how often each measurement is taken (3, or 1 where quick)")
	profile := flag.String("profile", "", "write a CPU profile of this process to that file")
	sql := flag.String("sql", "", "statements to run on each database, to see what they change")
	ended := flag.Int("ended", 1_000_000, "how many claims are over in the group size")
	list := flag.Bool("list", false, "list the groups")
	filled := flag.String("fill", "", "measure nothing: fill the database at that URL, of a server that runs, for its pages")
	workspaces := flag.Int("workspaces", 0, "how many workspaces to fill it with")
	cloud := flag.String("cloud", "", "where the files of that server's provider `sim` are, for the workspaces to be there too")
	days := flag.Int("days", 1, "how many days of claims to fill it with")
	forgePools := flag.String("forge", "", "with -fill: make these pools, separated by commas, ones of runners, with jobs of forges")
	flag.Parse()
	wanted, err := chosen(*only)
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if *list {
		for _, g := range groups {
			fmt.Printf("%-12s %s\n", g.name, g.what)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() { run(ctx, wanted, *quick, *rounds, *ended, *profile, *sql) }
	if *filled != "" {
		do = func() { fill(ctx, *filled, *cloud, *workspaces, *days) }
	}
	if *filled != "" && *forgePools != "" {
		do = func() { fillForge(ctx, *filled, strings.Split(*forgePools, ",")) }
	}
	if err := attempt(do); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // The context's resources end with the process.
	}
}

// chosen are the groups that -only names, nil where it names none. Without an error for the others, a misspelled group would
// pass for one that was measured.
func chosen(only string) (map[string]bool, error) {
	if only == "" {
		return nil, nil
	}
	known := make([]string, len(groups))
	for i, g := range groups {
		known[i] = g.name
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(only, ",") {
		group, _, isFigure := strings.Cut(name, ".")
		switch {
		case slices.Contains(known, name):
			wanted[name] = true
		case isFigure && slices.Contains(known, group):
			return nil, fmt.Errorf("%s is a figure of group %s: use -only %s", name, group, group)
		default:
			return nil, fmt.Errorf("there is no group %q: the groups are %s", name, strings.Join(known, ", "))
		}
	}
	return wanted, nil
}

func run(ctx context.Context, only map[string]bool, quick bool, rounds, ended int, profile, sql string) {
	scratch := get(os.MkdirTemp("", "prewarm-bench-"))
	defer os.RemoveAll(scratch)
	must(os.Chmod(scratch, 0o755)) // PostgreSQL may run as another user
	b := &bench{quick: quick, scratch: scratch, sql: sql, ended: ended, asked: only != nil}
	b.rounds = cmp.Or(rounds, sized(b, 3, 1))
	b.cluster = startCluster(ctx, scratch)
	defer b.stop()
	defer startProfile(profile)()
	var failed failures
	for _, g := range groups {
		if only == nil && slices.Contains(askedFor, g.name) || only != nil && !only[g.name] {
			continue
		}
		began := time.Now()
		fmt.Fprintf(os.Stderr, "# %s: %s\n", g.name, g.what)
		if !failed.unless(g.name, func() { b.group(ctx, g.run, cmp.Or(g.most, mostLasts)) }) {
			fmt.Fprintf(os.Stderr, "# a group failed, and the others go on: %v\n", failed[len(failed)-1])
		}
		fmt.Fprintf(os.Stderr, "# %s took %s\n", g.name, time.Since(began).Round(time.Second))
		if ctx.Err() != nil {
			break
		}
	}
	failed.must()
}

const (
	mostLasts = 6 * time.Minute // what a group takes at most; a third of that is usual
	warmUp    = time.Second     // after each checkpoint, before claims or updates count
)

// group runs one group for no longer than that.
func (b *bench) group(ctx context.Context, run func(context.Context, *bench), most time.Duration) {
	b.connect(ctx)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	run(ctx, b)
}

// window is how long one measurement takes.
func (b *bench) window() time.Duration { return sized(b, 5*time.Second, 2*time.Second) }

// sized is one of two sizes: the second where this is only to see that everything works.
func sized[T any](b *bench, whole, quick T) T {
	if b.quick {
		return quick
	}
	return whole
}
