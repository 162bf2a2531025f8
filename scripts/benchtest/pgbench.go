package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// yardstick is pgbench's simple update. Where pgbench is missing, a bare pgx loop sends the same statements.
type yardstick struct {
	url     string
	program string // empty: the bare loop
	scale   int
}

func (b *bench) yardstick(ctx context.Context) (*yardstick, func()) {
	address, drop := b.database(ctx, "")
	y := &yardstick{url: address, program: findPgbench(), scale: sized(b, 50, 10)}
	began := time.Now()
	y.fill(ctx)
	fmt.Fprintf(os.Stderr, "# %s at scale %d, filled in %s\n", y.name(), y.scale, time.Since(began).Round(time.Second))
	return y, drop
}

func (y *yardstick) name() string {
	if y.program == "" {
		return "pgx-simple-update"
	}
	return "pgbench-simple-update"
}

func findPgbench() string {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// fill makes pgbench's tables, as `pgbench -i` does.
func (y *yardstick) fill(ctx context.Context) {
	conn := get(pgx.Connect(ctx, y.url))
	defer conn.Close(ctx)
	for _, s := range []string{
		"CREATE TABLE pgbench_branches (bid int NOT NULL, bbalance int, filler char(88)) WITH (fillfactor = 100)",
		"CREATE TABLE pgbench_tellers (tid int NOT NULL, bid int, tbalance int, filler char(84)) WITH (fillfactor = 100)",
		"CREATE TABLE pgbench_accounts (aid int NOT NULL, bid int, abalance int, filler char(84)) WITH (fillfactor = 100)",
		"CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
		fmt.Sprintf("INSERT INTO pgbench_branches SELECT n, 0 FROM generate_series(1, %d) n", y.scale),
		fmt.Sprintf("INSERT INTO pgbench_tellers SELECT n, (n - 1) / 10 + 1, 0 FROM generate_series(1, %d) n", 10*y.scale),
		fmt.Sprintf("INSERT INTO pgbench_accounts SELECT n, (n - 1) / 100000 + 1, 0, '' FROM generate_series(1, %d) n",
			100_000*y.scale),
		"ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid)",
		"ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid)",
		"ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)",
	} {
		get(conn.Exec(ctx, s))
	}
	get(conn.Exec(ctx, "VACUUM ANALYZE", pgx.QueryExecModeSimpleProtocol))
}

// measure runs it for a window, after the same moment as claims. A rate above zero is an open loop of so many transactions
// per second.
func (y *yardstick) measure(ctx context.Context, b *bench, clients int, rate float64) sample {
	b.checkpoint(ctx)
	if y.program == "" {
		return y.bare(ctx, b, clients, rate)
	}
	args := []string{
		"-n", "-N", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-s", strconv.Itoa(y.scale),
	}
	warm := append(slices.Clone(args), "-T", strconv.Itoa(int(warmUp.Seconds())), y.url)
	if out, err := exec.CommandContext(ctx, y.program, warm...).CombinedOutput(); err != nil {
		fail("pgbench: %w: %s", err, out)
	}
	args = append(args, "-T", strconv.Itoa(int(b.window().Seconds())))
	logs := filepath.Join(b.scratch, "pgbench")
	args = append(args, "-l", "--log-prefix", logs) // for the quantiles
	if rate > 0 {
		args = append(args, "-R", strconv.FormatFloat(rate, 'f', 0, 64))
	}
	before := b.processor()
	cmd := exec.CommandContext(ctx, y.program, append(args, y.url)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		fail("pgbench: %w: %s", err, out)
	}
	spent := b.processor().since(before)
	tps := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if tps == nil {
		fail("pgbench said: %s", out)
	}
	s := sample{}
	s.perSecond, _ = strconv.ParseFloat(string(tps[1]), 64)
	took := pgbenchLog(logs)
	client := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.ours = client / time.Duration(len(took))
	s.processor = (client + spent.server) / time.Duration(len(took))
	s.p50, s.p99 = quantile(took, 0.5), quantile(took, 0.99)
	return s
}

// pgbenchLog reads the latencies that pgbench wrote (third column, microseconds), and removes the files.
func pgbenchLog(prefix string) []time.Duration {
	files := get(filepath.Glob(prefix + ".*"))
	var took []time.Duration
	for _, f := range files {
		raw := get(os.ReadFile(f))
		for l := range strings.Lines(string(raw)) {
			if fields := strings.Fields(l); len(fields) > 2 {
				us, _ := strconv.Atoi(fields[2])
				took = append(took, time.Duration(us)*time.Microsecond)
			}
		}
		_ = os.Remove(f)
	}
	if len(took) == 0 {
		fail("pgbench logged nothing at %s", prefix)
	}
	return took
}

// bare sends what pgbench sends, over pgx.
func (y *yardstick) bare(ctx context.Context, b *bench, clients int, rate float64) sample {
	workers := make([]func(), clients)
	for i := range workers {
		conn := get(pgx.Connect(ctx, y.url))
		defer conn.Close(context.WithoutCancel(ctx))
		workers[i] = func() { y.update(ctx, conn) }
	}
	within("warm up", func() { b.loop(workers, 0, warmUp) })
	return b.loop(workers, rate, b.window())
}

// update is one transaction.
func (y *yardstick) update(ctx context.Context, conn *pgx.Conn) {
	account, delta := 1+rand.IntN(100_000*y.scale), rand.IntN(10_001)-5000
	var balance int
	get(conn.Exec(ctx, "BEGIN"))
	get(conn.Exec(ctx, "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", delta, account))
	must(conn.QueryRow(ctx, "SELECT abalance FROM pgbench_accounts WHERE aid = $1", account).Scan(&balance))
	get(conn.Exec(ctx, "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
		1+rand.IntN(10*y.scale), 1+rand.IntN(y.scale), account, delta))
	get(conn.Exec(ctx, "COMMIT"))
}
