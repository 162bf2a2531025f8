package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/streams"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// tunnelTurns is how often claims without tunnels and with them take turns: whatever slows down everything meanwhile counts for both.
const tunnelTurns = 3

// tunnels measures what idle tunnels cost one replica: its memory, and claims over HTTP, without them and with them in turns. The
// agents are clients of the real protocol, all in this process.
func tunnels(ctx context.Context, b *bench) {
	n := sized(b, 10_000, 500)
	f := b.fleet(ctx, 1, 0)
	defer f.drop()
	get(f.store.Pool.Exec(ctx, "UPDATE template_versions SET agent = '{}'"))
	f.addClaimed(ctx, n)
	agents := f.expectAgents(ctx)
	r := b.serve(ctx, f, "tunnels", 15*time.Second,
		"--max-connections", strconv.Itoa(n+1000), "--max-connections-per-address", strconv.Itoa(n+1000))
	defer r.stop()
	get(r.client.Pause(ctx, sdk.PauseRequest{Scope: "global", Reason: "so that only claims are measured"}))

	var turn atomic.Int64
	measure := func(name string) (s sample) {
		f.stock(ctx, 2500) // more than are claimed; each pass reads them all
		within(name, func() {
			conn := dialHTTP(r.host(), f.token.Reveal())
			defer conn.close()
			s = f.claims(ctx, b, []claimer{conn.claim}, &turn, 0, b.window())
		})
		fmt.Fprintf(os.Stderr, "# %s: %.0f claims/s, p50 %.2f ms, p99 %.2f ms\n", name, s.perSecond, p50(s), p99(s))
		return s
	}
	name := fmt.Sprintf("tunnels.%d", n)
	var without, with []sample
	var used, most int
	measure("warm up")
	for turn := range tunnelTurns {
		without = append(without, measure("without tunnels"))
		empty, _ := r.resident()
		began := time.Now()
		leave := agents.enter(ctx, r)
		until(ctx, time.Minute, "all tunnels are open", func() bool { return one[int](ctx, f, "SELECT count(*) FROM tunnels") == n })
		opened := time.Since(began)
		if full, _ := r.resident(); turn == 0 {
			line("tunnels.0.resident", float64(empty)/(1<<20), "MiB", 0, "")
			line(name+".resident.opened", float64(full)/(1<<20), "MiB", 0, "")
			line(name+".opened", float64(n)/opened.Seconds(), "/s", 0, "")
		}
		with = append(with, measure("with tunnels"))
		used, most = r.resident()
		leave()
		until(ctx, 5*time.Minute, "the tunnels are gone", func() bool { return one[int](ctx, f, "SELECT count(*) FROM tunnels") == 0 })
	}
	without = append(without, measure("without tunnels"))
	line(name+".resident", float64(used)/(1<<20), "MiB", 0, "")
	line(name+".resident.peak", float64(most)/(1<<20), "MiB", 0, "")
	line("tunnels.0.claims.p50", middle(without, p50), "ms", 0, "")
	line(name+".claims.p50", middle(with, p50), "ms", middle(without, p50), "tunnels.0.claims.p50")
	line("tunnels.0.claims.p99", middle(without, p99), "ms", 0, "")
	line(name+".claims.p99", middle(with, p99), "ms", middle(without, p99), "tunnels.0.claims.p99")
	line("tunnels.0.claims", middle(without, perSecond), "/s", 0, "")
	line(name+".claims", middle(with, perSecond), "/s", middle(without, perSecond), "tunnels.0.claims")
}

// tokens are those of agents that are expected.
type tokens []string

// expectAgents makes a token for each claimed workspace.
func (f *fleet) expectAgents(ctx context.Context) (all tokens) {
	service := instance.New(instance.Options{
		Store: f.store, Writer: workspaces.New(f.store, uuid.New, "bench"), Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), URL: "http://bench", Hints: hints.Local(hints.Ears{}),
	})
	rows := get(f.store.Pool.Query(ctx, "SELECT id FROM workspaces WHERE state = 'claimed'"))
	var ids []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		must(rows.Scan(&id))
		ids = append(ids, id)
	}
	must(rows.Err())
	for _, id := range ids {
		callback := get(service.Callback(ctx, database.Job{WorkspaceID: id, Incarnation: 1, Attempt: 1}, nil))
		all = append(all, callback.Token)
	}
	return all
}

// enter opens a tunnel for each, and serves what comes through it. It returns when all are open; leave cuts them off.
func (all tokens) enter(ctx context.Context, r *replica) (leave func()) {
	ctx, leave = context.WithCancel(ctx)
	var eg errgroup.Group
	eg.SetLimit(32)
	for _, token := range all {
		eg.Go(func() error {
			return attempt(func() {
				c := get(sdk.New(r.address, token))
				c.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				ws := get(c.OpenTunnel(ctx))
				session := get(streams.Accept(streams.Conn(ctx, ws)))
				context.AfterFunc(ctx, func() { _ = session.Close() })
				serve := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
				go func() { _ = serve.Serve(session) }()
			})
		})
	}
	must(eg.Wait())
	return leave
}
