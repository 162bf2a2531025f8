package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/database/embedded"
)

// A backend's batches are counted twice, so that what it does but once, to begin and to plan, is left out.
const fewBatches, manyBatches = 30, 130

// instructions is what pools is, counted and not timed: how many instructions a backend takes for a claim, from one pool and from
// 1,000 in turn, by the statement of claims and by a bare one. Whatever else the machine does, they are the same.
func instructions(ctx context.Context, b *bench) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		fail("this counts instructions with valgrind: install it (Debian, Ubuntu: apt-get install valgrind)")
	}
	one, many := b.stocked(ctx, 1, 0), b.stocked(ctx, 1000, 0)
	defer one.drop()
	defer many.drop()
	defer b.slowly(ctx, valgrind)()
	added := map[string][]float64{}
	for _, of := range []struct {
		name      string
		statement func(*batches, context.Context, batch) []claimed
	}{{"statement", (*batches).claim}, {"bare", (*batches).bare}} {
		var first, all, ratios []float64
		for range b.rounds {
			f, a := one.count(ctx, b, of.statement), many.count(ctx, b, of.statement)
			first, all, ratios = append(first, f), append(all, a), append(ratios, a/f)
			added[of.name] = append(added[of.name], a-f)
		}
		line("instructions."+of.name+".1", median(first), "", 0, "")
		lineRatio("instructions."+of.name+".1000", median(all), "", median(ratios), "instructions."+of.name+".1-right-before")
	}
	line("instructions.added-by-1000", median(added["statement"]), "", median(added["bare"]), "bare")
}

// counted is the folder in which valgrind leaves a file for each process.
func (b *bench) counted() string { return filepath.Join(b.scratch, "counted") }

// slowly starts PostgreSQL again on the same databases, each of its processes in valgrind, and returns what has it run as before.
func (b *bench) slowly(ctx context.Context, valgrind string) func() {
	installed := get(embedded.FindBinaries(ctx, b.version/10000))
	folder := filepath.Join(b.scratch, "slow")
	must(os.Mkdir(folder, 0o755))
	must(os.Mkdir(b.counted(), 0o755))
	must(os.Chmod(b.counted(), 0o777)) // PostgreSQL may run as another user, whatever the umask is
	for _, program := range get(os.ReadDir(installed.Dir)) {
		if program.Name() != "postgres" {
			must(os.Symlink(filepath.Join(installed.Dir, program.Name()), filepath.Join(folder, program.Name())))
		}
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s --tool=callgrind --trace-children=yes --log-file=/dev/null --callgrind-out-file=%s/%%p %s \"$@\"\n",
		valgrind, b.counted(), filepath.Join(installed.Dir, "postgres"))
	slow := filepath.Join(folder, "postgres")
	must(os.WriteFile(slow, []byte(script), 0o600))
	must(os.Chmod(slow, 0o755))
	// What comes by chance is left out: autovacuum, and images of pages that are written first after a checkpoint.
	for _, setting := range []string{"autovacuum", "full_page_writes"} {
		get(b.admin.Exec(ctx, "ALTER SYSTEM SET "+setting+" = off"))
	}
	before, had := os.LookupEnv(embedded.BinEnv)
	b.again(ctx, func() { must(os.Setenv(embedded.BinEnv, folder)) })
	return func() {
		get(b.admin.Exec(context.WithoutCancel(ctx), "ALTER SYSTEM RESET ALL"))
		b.again(context.WithoutCancel(ctx), func() {
			must(os.Unsetenv(embedded.BinEnv))
			if had {
				must(os.Setenv(embedded.BinEnv, before))
			}
		})
	}
}

// again stops PostgreSQL, and starts it after a change.
func (b *bench) again(ctx context.Context, change func()) {
	b.stop()
	change()
	fresh := startCluster(ctx, b.scratch)
	fresh.databases = b.databases
	*b.cluster = *fresh // what has opened databases knows it by that address
}

// count is how many instructions of a backend a claim takes, on a copy of the image.
func (i *image) count(ctx context.Context, b *bench, statement func(*batches, context.Context, batch) []claimed) float64 {
	d := i.open(ctx)
	defer d.close()
	all := newBatches(d)
	few := all.backend(ctx, b, statement, fewBatches)
	return (all.backend(ctx, b, statement, manyBatches) - few) / ((manyBatches - fewBatches) * bareBatch)
}

var totals = regexp.MustCompile(`^(?:summary|totals): (\d+)`)

// backend is how many instructions one takes for so many batches, from its beginning to its end.
func (all *batches) backend(ctx context.Context, b *bench, statement func(*batches, context.Context, batch) []claimed, n int) float64 {
	conn := get(pgx.Connect(ctx, all.url))
	defer conn.Close(context.WithoutCancel(ctx))
	all.db = conn
	for range n {
		all.one(ctx, statement)
	}
	pid := strconv.Itoa(int(conn.PgConn().PID()))
	must(conn.Close(ctx))
	for ; ; pause(ctx, 100*time.Millisecond) { // until it has ended, and valgrind has written
		f, err := os.Open(filepath.Join(b.counted(), pid))
		if err != nil {
			must(ctx.Err())
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if m := totals.FindStringSubmatch(lines.Text()); m != nil {
				_ = f.Close()
				return get(strconv.ParseFloat(m[1], 64))
			}
		}
		_ = f.Close()
		must(ctx.Err())
	}
}
