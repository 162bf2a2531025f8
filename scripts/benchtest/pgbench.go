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
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// yardstick is pgbench's simple update. Where pgbench is missing, a bare pgx loop sends the same statements.
type yardstick struct {
	url     string
	program string // empty: the bare loop
	scale   int
}

func (b *bench) yardstick(ctx context.Context) (*yardstick, func(), error) {
	address, drop, err := b.database(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	y := &yardstick{url: address, program: findPgbench(), scale: 50}
	if b.quick {
		y.scale = 10
	}
	began := time.Now()
	if err := y.fill(ctx); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(os.Stderr, "# %s at scale %d, filled in %s\n", y.name(), y.scale, time.Since(began).Round(time.Second))
	return y, drop, nil
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
func (y *yardstick) fill(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, y.url)
	if err != nil {
		return err
	}
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
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE", pgx.QueryExecModeSimpleProtocol)
	return err
}

// measure runs it for a window, after the same moment as claims. A rate above zero is an open loop of so many transactions
// per second.
func (y *yardstick) measure(ctx context.Context, b *bench, clients int, rate float64) (sample, error) {
	if err := b.checkpoint(ctx); err != nil {
		return sample{}, err
	}
	if y.program == "" {
		return y.bare(ctx, b, clients, rate)
	}
	args := []string{
		"-n", "-N", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-s", strconv.Itoa(y.scale),
	}
	warm := append(slices.Clone(args), "-T", strconv.Itoa(int(warmUp.Seconds())), y.url)
	if out, err := exec.CommandContext(ctx, y.program, warm...).CombinedOutput(); err != nil {
		return sample{}, fmt.Errorf("pgbench: %w: %s", err, out)
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
		return sample{}, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	spent := b.processor().since(before)
	tps := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if tps == nil {
		return sample{}, fmt.Errorf("pgbench said: %s", out)
	}
	s := sample{}
	s.perSecond, _ = strconv.ParseFloat(string(tps[1]), 64)
	took, err := pgbenchLog(logs)
	if err != nil {
		return sample{}, err
	}
	client := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.ours = client / time.Duration(len(took))
	s.processor = (client + spent.server) / time.Duration(len(took))
	s.p50, s.p99 = quantile(took, 0.5), quantile(took, 0.99)
	return s, nil
}

// pgbenchLog reads the latencies that pgbench wrote (third column, microseconds), and removes the files.
func pgbenchLog(prefix string) ([]time.Duration, error) {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for l := range strings.Lines(string(raw)) {
			if fields := strings.Fields(l); len(fields) > 2 {
				us, _ := strconv.Atoi(fields[2])
				took = append(took, time.Duration(us)*time.Microsecond)
			}
		}
		_ = os.Remove(f)
	}
	if len(took) == 0 {
		return nil, fmt.Errorf("pgbench logged nothing at %s", prefix)
	}
	return took, nil
}

// bare sends what pgbench sends, over pgx.
func (y *yardstick) bare(ctx context.Context, b *bench, clients int, rate float64) (sample, error) {
	conns := make([]*pgx.Conn, clients)
	for i := range conns {
		conn, err := pgx.Connect(ctx, y.url)
		if err != nil {
			return sample{}, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		conns[i] = conn
	}
	if _, err := y.loop(ctx, conns, 0, warmUp); err != nil {
		return sample{}, fmt.Errorf("warm up: %w", err)
	}
	before, began := b.processor(), time.Now()
	took, err := y.loop(ctx, conns, rate, b.window())
	if err != nil {
		return sample{}, err
	}
	spent, n := b.processor().since(before), time.Duration(len(took))
	return sample{
		perSecond: float64(n) / time.Since(began).Seconds(), processor: (spent.here + spent.server) / n, ours: spent.here / n,
		p50: quantile(took, 0.5), p99: quantile(took, 0.99),
	}, nil
}

// loop has each connection send transactions for a window: one after the other, or at a rate as they fall due, which is when
// their latency begins then, as with pgbench -R.
func (y *yardstick) loop(ctx context.Context, conns []*pgx.Conn, rate float64, window time.Duration) ([]time.Duration, error) {
	began := time.Now()
	next := func() (time.Time, bool) { now := time.Now(); return now, now.Before(began.Add(window)) }
	if rate > 0 {
		due := arrivals(began, window, rate)
		next = func() (time.Time, bool) { at, more := <-due; return at, more }
	}
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() {
			var mine []time.Duration
			var err error
			for start, more := next(); more && err == nil; start, more = next() {
				err = y.update(ctx, conn)
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return took, failed
}

// update is one transaction.
func (y *yardstick) update(ctx context.Context, conn *pgx.Conn) error {
	account, delta := 1+rand.IntN(100_000*y.scale), rand.IntN(10_001)-5000
	var balance int
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", delta, account); err != nil {
		return err
	}
	if err := conn.QueryRow(ctx, "SELECT abalance FROM pgbench_accounts WHERE aid = $1", account).Scan(&balance); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
		1+rand.IntN(10*y.scale), 1+rand.IntN(y.scale), account, delta)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "COMMIT")
	return err
}
