package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// honestRate is how many claims a second others make, each over a connection of its own: far from what the server can do.
const honestRate = 20

// abuse measures what clients who mean harm cost a server: its memory, and the latency of the claims of others meanwhile.
// Calm windows and floods take turns on one server, which refills its pools all the while.
func abuse(ctx context.Context, b *bench) {
	b.abused(ctx, "slow-bodies", slowBodies)
	b.abused(ctx, "yaml", heavyFiles)
	b.abused(ctx, "log-follow", followers)
}

// target is a server that is abused in one way.
type target struct {
	*fleet
	*replica
	bench *bench
	name  string // of its lines
	turn  atomic.Int64
}

// abused measures one kind of abuse on a server of its own.
func (b *bench) abused(ctx context.Context, name string, measure func(context.Context, *target)) {
	const pools, each = 4, 100
	f, r, end := b.running(ctx, pools, each, name)
	defer end()
	t := &target{fleet: f, replica: r, bench: b, name: "abuse." + name}
	t.claims(ctx) // the first ones warm it up
	within(name, func() { measure(ctx, t) })
}

// beside measures claims without and with what flood begins, in turns: what it runs in all ends with its context. report is
// called before that.
func (t *target) beside(ctx context.Context, flood func(ctx context.Context, all *sync.WaitGroup) (report func())) {
	var calm, flooded []sample
	var before, most int
	for range t.bench.rounds {
		calm = append(calm, t.claims(ctx))
		if before == 0 {
			before, _ = t.resident()
		}
		t.forgetPeak()
		func() {
			flooding, cancel := context.WithCancel(ctx)
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			report := flood(flooding, &all)
			flooded = append(flooded, t.claims(ctx))
			report()
		}()
		pause(ctx, time.Second) // the server notices its end
		_, peak := t.resident()
		most = max(most, peak)
	}
	line(t.name+".claims.p50", middle(flooded, p50), "ms", middle(calm, p50), "without")
	line(t.name+".claims.p99", middle(flooded, p99), "ms", middle(calm, p99), "without")
	line(t.name+".memory.peak", float64(most)/(1<<20), "MiB", float64(before)/(1<<20), "before")
}

// claims are those of honest clients for a window, as they come at a steady rate. Each is a hit: a miss is a failure.
func (t *target) claims(ctx context.Context) sample {
	const most = 30 * time.Second // only a server that hangs takes so long
	clients := slices.Repeat([]claimer{func(ctx context.Context, p pool) uuid.UUID {
		c := dialHTTP(t.host(), t.token.Reveal())
		defer c.close()
		must(c.conn.SetDeadline(time.Now().Add(most)))
		return c.claim(ctx, p)
	}}, 32)
	s := t.fleet.claims(ctx, t.bench, clients, &t.turn, honestRate, 3*t.bench.window())
	fmt.Fprintf(os.Stderr, "# %s: %d claims, p50 %.1f ms, p99 %.1f ms\n", t.name, s.n, p50(s), p99(s))
	return s
}

// forgetPeak has the kernel begin anew with the peak of the server's memory.
func (r *replica) forgetPeak() {
	must(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.cmd.Process.Pid), []byte("5"), 0o200))
}

// user is the client of a new user of that role.
func (t *target) user(ctx context.Context, role string) *sdk.Client {
	made := get(t.client.CreateToken(ctx, sdk.CreateTokenRequest{Name: "abuse", User: "mallory", Role: role}))
	return get(sdk.New(t.address, made.Secret))
}

// from dials the server from another address of this machine than honest clients have: limits are by address.
func (t *target) from(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	return d.DialContext(ctx, "tcp", t.host())
}

// needFiles fails where this process may not have so many files open. Go has raised the limit to the highest allowed.
func needFiles(n uint64) {
	var limit unix.Rlimit
	must(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < n {
		fail("%d open files are needed, and %d are allowed: raise `ulimit -n`", n, limit.Cur)
	}
}
