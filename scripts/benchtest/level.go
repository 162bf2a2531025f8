package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/retentiondb"
)

const (
	levelRate  = 20               // claims a second, each released a second later
	levelFirst = 10 * time.Minute // until then caches, pools of connections and tables grow
	levelKept  = 5 * time.Minute  // ended rows, so that an hour says what months would: retention keeps them for days
)

// levels is what must not grow for as long as a server does the same.
type levels struct {
	memory, descriptors, goroutines, connections, tables float64
}

// level claims and releases at one rate for an hour, and compares what the server and its database need at the end with what
// they needed after the first ten minutes.
func level(ctx context.Context, b *bench) { b.level(ctx, "level", levelSim) }

func levelOfLocal(ctx context.Context, b *bench) { b.level(ctx, "level-local", levelLocal) }

const levelSim = `
templates:
  - name: pool
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: 100}}]
`

const levelLocal = `
templates:
  - name: pool
    provider: local
    spec: {command: [sleep, infinity]}
    presets: [{name: default, prebuilds: {instances: 100}}]
`

func (b *bench) level(ctx context.Context, name, document string) {
	f := b.fleet(ctx, 0, 0)
	defer f.drop()
	r := b.serve(ctx, f, "level", 15*time.Second)
	defer r.stop()
	get(r.client.Apply(ctx, sdk.ApplyRequest{Document: document}))
	defer guest{server: r, of: "pool"}.leave(ctx) // workspaces of local outlive their server
	f.full(ctx, 100)
	first, whole := sized(b, levelFirst, 20*time.Second), sized(b, time.Hour, time.Minute)
	began := time.Now()
	var early, now, most levels
	var counts counted
	var all sync.WaitGroup
	defer all.Wait()
	steady, stop := context.WithCancel(ctx)
	defer stop()
	all.Go(func() { counts.claim(steady, &all, r) })
	for at := time.Now(); ; {
		at = at.Add(sized(b, time.Minute, 10*time.Second))
		pause(ctx, time.Until(at))
		f.purge(ctx)
		now = f.levels(ctx, r)
		past := time.Since(began)
		fmt.Fprintf(os.Stderr, "# %s, %s: %s, %.1f MiB, %.0f descriptors, %.0f goroutines, %.0f connections, tables of %.1f MiB\n",
			name, past.Round(time.Second), &counts, now.memory, now.descriptors, now.goroutines, now.connections, now.tables)
		if past <= first+time.Second {
			early = now
			continue
		}
		most = most.or(now)
		if past >= whole {
			break
		}
	}
	stop()
	all.Wait()
	if counts.failed > 0 {
		fail("%d claims failed", counts.failed)
	}
	line(name+".hits", float64(counts.hits), "", float64(counts.hits+counts.waited+counts.misses), "claims")
	line(name+".waited", float64(counts.waited), "", 0, "")
	for _, l := range []struct {
		name, unit       string
		early, now, most float64
	}{
		{"memory", "MiB", early.memory, now.memory, most.memory},
		{"descriptors", "", early.descriptors, now.descriptors, most.descriptors},
		{"goroutines", "", early.goroutines, now.goroutines, most.goroutines},
		{"connections", "", early.connections, now.connections, most.connections},
		{"tables", "MiB", early.tables, now.tables, most.tables},
	} {
		line(name+"."+l.name, l.now, l.unit, l.early, "after-the-beginning")
		line(name+"."+l.name+".most", l.most, l.unit, l.early, "after-the-beginning")
	}
}

func (l levels) or(m levels) levels {
	return levels{
		max(l.memory, m.memory), max(l.descriptors, m.descriptors), max(l.goroutines, m.goroutines),
		max(l.connections, m.connections), max(l.tables, m.tables),
	}
}

// counted is what became of claims.
type counted struct {
	mu                           sync.Mutex
	hits, waited, misses, failed int
}

func (c *counted) count(claim sdk.Claim, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.failed++
	case claim.Outcome == "hit":
		c.hits++
	case claim.Outcome == "waited":
		c.waited++
	default:
		c.misses++
	}
}

func (c *counted) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d hits, %d after a wait, %d misses, %d errors", c.hits, c.waited, c.misses, c.failed)
}

// claim claims at the rate until ctx ends, whatever becomes of those before.
func (c *counted) claim(ctx context.Context, all *sync.WaitGroup, r *replica) {
	tick := time.NewTicker(time.Second / levelRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all.Go(func() {
			claim, err := r.client.Claim(ctx, sdk.ClaimRequest{Template: "pool", Preset: "default", Mode: "prefer"})
			if ctx.Err() != nil {
				return
			}
			c.count(claim, err)
			if err == nil && claim.WorkspaceID != nil {
				time.Sleep(time.Second)
				_, _ = r.client.ReleaseWorkspace(ctx, claim.WorkspaceID.String())
			}
		})
	}
}

// purge does what retention does, of what is minutes old.
func (f *fleet) purge(ctx context.Context) {
	q := retentiondb.New(f.store)
	kept, batch := levelKept.Seconds(), int32(1000)
	for _, purge := range []func() (int64, error){
		func() (int64, error) {
			return q.PurgeWorkspaces(ctx, retentiondb.PurgeWorkspacesParams{KeepS: kept, Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeHistory(ctx, retentiondb.PurgeHistoryParams{KeepS: kept, Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeClaims(ctx, retentiondb.PurgeClaimsParams{KeepS: kept, Batch: batch})
		},
		func() (int64, error) {
			return q.PurgeAudit(ctx, retentiondb.PurgeAuditParams{KeepS: kept, Batch: batch})
		},
	} {
		for n := int64(batch); n >= int64(batch); {
			n = get(purge())
		}
	}
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

func (f *fleet) levels(ctx context.Context, r *replica) (l levels) {
	process := get(procfs.NewProc(r.cmd.Process.Pid))
	now, _ := r.resident()
	l.memory, l.descriptors = float64(now)/(1<<20), float64(get(process.FileDescriptorsLen()))
	req := get(http.NewRequestWithContext(ctx, http.MethodGet, r.address+"/metrics", nil))
	resp := get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	if m := goroutines.FindSubmatch(get(io.ReadAll(resp.Body))); m != nil {
		l.goroutines = float64(get(strconv.Atoi(string(m[1]))))
	}
	l.connections = one[float64](ctx, f, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
	l.tables = one[float64](ctx, f, "SELECT pg_database_size(current_database()) / 1048576.0")
	return l
}
