package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// phase of a pass in which its holder is stopped, by what PostgreSQL says of the holder's connection.
type phase struct{ name, state, query string }

var phases = []phase{
	{"idle", "idle in transaction", "%"},
	{"reading", "active", "%SnapshotWorkspaces%"},
	{"writing", "active", "%WorkspacesPlanned%"},
}

// failover measures how long a nudge that is pending at another replica takes to be served when the holder of the pass's
// lock is killed, or frozen, in each phase of its pass. Replicas are processes.
func failover(ctx context.Context, b *bench) {
	const pools, each = 1000, 20
	var failed failures
	for _, end := range []struct {
		name string
		kill bool
	}{{"SIGKILL", true}, {"SIGSTOP", false}} {
		for _, phase := range phases {
			var all []float64
			rounds := b.rounds
			if !end.kill {
				rounds = 1 // more than ten seconds each
			}
			for range rounds {
				failed.unless(end.name+" while "+phase.name, func() {
					all = append(all, b.failoverOnce(ctx, pools, each, phase, end.kill).Seconds()*1000)
				})
			}
			if len(all) > 0 {
				line("failover."+end.name+"."+phase.name, median(all), "ms", 0, "")
			}
		}
	}
	failed.must()
}

func (b *bench) failoverOnce(ctx context.Context, pools, each int, in phase, kill bool) time.Duration {
	f := b.fleet(ctx, pools, each)
	defer f.drop()
	f.add(ctx, pools*each)
	f.settle(ctx)
	get(f.store.Pool.Exec(ctx, "UPDATE providers SET creates_in_flight = 1"))
	survivor := b.serve(ctx, f, "survivor", time.Hour)
	defer survivor.stop()
	victim := b.serve(ctx, f, "victim", 300*time.Millisecond)
	defer victim.stop()
	f.freeze(ctx, victim, in)
	seq := one[int](ctx, f, "SELECT seq FROM reconcile_fence") // the frozen pass has not committed
	must(survivor.client.NudgePreset(ctx, f.pools[0].name, "default"))
	began := time.Now()
	if kill {
		time.Sleep(100 * time.Millisecond) // the nudge is pending by now: the lock is held
		began = time.Now()
		victim.kill()
	}
	until(ctx, 2*time.Minute, "the survivor's pass", func() bool {
		return one[bool](ctx, f, "SELECT holder = 'survivor' AND seq > $1 FROM reconcile_fence", seq)
	})
	return time.Since(began)
}

// freeze stops the victim in that phase of a pass, holding the lock.
func (f *fleet) freeze(ctx context.Context, victim *replica, in phase) {
	holder := func() (pid int, is bool) {
		err := f.store.Pool.QueryRow(ctx, `SELECT a.pid, a.state = $2 AND a.query LIKE $3 FROM pg_stat_activity a
			JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' AND l.classid = 1886545271 AND l.objid = 1 AND l.granted
			WHERE a.application_name = $1`, "prewarm/"+victim.name, in.state, in.query).Scan(&pid, &is)
		if !errors.Is(err, pgx.ErrNoRows) {
			must(err)
		}
		return pid, is
	}
	tries := 0
	until(ctx, 3*time.Minute, "catch the holder while "+in.name, func() bool {
		if in.name == "writing" && tries%500 == 0 { // something to write
			get(f.store.Pool.Exec(ctx, "UPDATE presets SET instances = instances + 5"))
		}
		tries++
		pid, is := holder()
		if !is {
			return false
		}
		victim.signal(syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond)
		if still, _ := holder(); still != pid {
			victim.signal(syscall.SIGCONT) // it was through already
			return false
		}
		return true
	})
}
