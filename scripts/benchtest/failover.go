package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// phases of a pass in which its holder is stopped, by what PostgreSQL says of the holder's connection.
var phases = []struct{ name, state, query string }{
	{"idle", "idle in transaction", "%"},
	{"reading", "active", "%SnapshotWorkspaces%"},
	{"writing", "active", "%WorkspacesPlanned%"},
}

// failover measures how long a nudge that is pending at another replica takes to be served when the holder of the pass's
// lock is killed, or frozen, in each phase of its pass. Replicas are processes.
func failover(ctx context.Context, b *bench) error {
	const pools, each = 1000, 20
	var failed []error
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
				took, err := b.failoverOnce(ctx, pools, each, phase.name, phase.state, phase.query, end.kill)
				if err != nil {
					failed = append(failed, fmt.Errorf("%s while %s: %w", end.name, phase.name, err))
					continue
				}
				all = append(all, took.Seconds()*1000)
			}
			if len(all) > 0 {
				line("failover."+end.name+"."+phase.name, median(all), "ms", 0, "")
			}
		}
	}
	return errors.Join(failed...)
}

func (b *bench) failoverOnce(
	ctx context.Context, pools, each int, phase, state, query string, kill bool,
) (time.Duration, error) {
	f, err := b.fleet(ctx, pools, each)
	if err != nil {
		return 0, err
	}
	defer f.drop()
	if err := f.add(ctx, pools*each); err != nil {
		return 0, err
	}
	if err := f.settle(ctx); err != nil {
		return 0, err
	}
	if _, err := f.store.Pool.Exec(ctx, "UPDATE providers SET creates_in_flight = 1"); err != nil {
		return 0, err
	}
	survivor, err := b.serve(ctx, f, "survivor", time.Hour)
	if err != nil {
		return 0, err
	}
	defer survivor.stop()
	victim, err := b.serve(ctx, f, "victim", 300*time.Millisecond)
	if err != nil {
		return 0, err
	}
	defer victim.stop()
	err = f.freeze(ctx, victim, phase, state, query)
	if err != nil {
		return 0, err
	}
	var seq int // the frozen pass has not committed
	if err := f.store.Pool.QueryRow(ctx, "SELECT seq FROM reconcile_fence").Scan(&seq); err != nil {
		return 0, err
	}
	if err := survivor.client.NudgePreset(ctx, f.pools[0].name, "default"); err != nil {
		return 0, err
	}
	began := time.Now()
	if kill {
		time.Sleep(100 * time.Millisecond) // the nudge is pending by now: the lock is held
		began = time.Now()
		victim.kill()
	}
	err = until(ctx, 2*time.Minute, "the survivor's pass", func() (bool, error) {
		var served bool
		err := f.store.Pool.QueryRow(ctx, "SELECT holder = 'survivor' AND seq > $1 FROM reconcile_fence", seq).Scan(&served)
		return served, err
	})
	return time.Since(began), err
}

// freeze stops the victim in that phase of a pass, holding the lock.
func (f *fleet) freeze(ctx context.Context, victim *replica, phase, state, query string) error {
	holder := func() (pid int, is bool, err error) {
		err = f.store.Pool.QueryRow(ctx, `SELECT a.pid, a.state = $2 AND a.query LIKE $3 FROM pg_stat_activity a
			JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' AND l.classid = 1886545271 AND l.objid = 1 AND l.granted
			WHERE a.application_name = $1`, "prewarm/"+victim.name, state, query).Scan(&pid, &is)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, false, nil
		}
		return pid, is, err
	}
	tries := 0
	return until(ctx, 3*time.Minute, "catch the holder while "+phase, func() (bool, error) {
		if phase == "writing" && tries%500 == 0 { // something to write
			if _, err := f.store.Pool.Exec(ctx, "UPDATE presets SET instances = instances + 5"); err != nil {
				return false, err
			}
		}
		tries++
		pid, is, err := holder()
		if err != nil || !is {
			return false, err
		}
		victim.signal(syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond)
		still, _, err := holder()
		if err != nil || still != pid {
			victim.signal(syscall.SIGCONT) // it was through already
			return false, err
		}
		return true, nil
	})
}
