package faults_test

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// plot is what happens around a stop.
type plot struct {
	spec  string // of the template: how its resources behave
	fail  string // what the first process's provider does wrong, once
	scale scale
	want  int // workspaces at the end
	// tier of the pool. One that is to be started is stopped first.
	tier, before string
}

// scale says when a pool of one is scaled to none, if it is.
type scale int

const (
	kept        scale = iota
	whenReady         // by the process that is about to stop
	whileMaking       // by the process that is about to stop, while it creates
	whileGone         // by the other, after the first has stopped
)

var plots = map[string]plot{
	"create":              {want: 1},
	"create, slowly":      {want: 1, spec: "create_latency: 3s"},
	"create, again":       {want: 1, fail: "create"},
	"create, in vain":     {want: 1, fail: "permanently"},
	"probe":               {want: 1},
	"cancel":              {scale: whileMaking, spec: "create_latency: 1h"},
	"cancelled meanwhile": {scale: whileGone},
	"drain":               {scale: whenReady},
	"delete":              {scale: whenReady},
	"delete, again":       {scale: whenReady, fail: "delete"},
	"stop":                {want: 1, tier: "stopped"},
	"start":               {want: 1, tier: "running", before: "stopped"},
}

// point is where a worker is stopped.
type point struct {
	plot, moment, words string
}

var points = []point{
	{"create", "sql:LeaseJobs/create:before", "before the lease is asked for"},
	{"create", "sql:LeaseJobs/create:after", "after the lease"},
	{"create", "sql:JobForWork:after", "after the workspace is read"},
	{"create", "call:create:before", "in the call, before the resource exists"},
	{"create", "call:create:after", "in the call, after the resource exists"},
	{"create", "sql:WorkspaceCreated:before", "after the call, before the record"},
	{"create", "sql:WorkspaceCreated:after", "after the record, before anybody is told"},
	{"create, slowly", "sql:ExtendLeases:before", "before its heartbeat"},
	{"create, slowly", "sql:ExtendLeases:after", "after its heartbeat"},
	{"create, again", "sql:RetryJob:before", "after a failure, before the retry is recorded"},
	{"create, again", "sql:RetryJob:after", "after the retry is recorded"},
	{"create, again", "sql:LeaseJobs/create:after#2", "after the second lease"},
	{"create, again", "call:delete:before", "in the delete before the retry, before its effect"},
	{"create, again", "call:delete:after", "in the delete before the retry, after its effect"},
	{"create, again", "call:create:before#2", "in the second call, before the resource exists"},
	{"create, again", "call:create:after#2", "in the second call, after the resource exists"},
	{"create, again", "sql:WorkspaceCreated:before", "after the second call, before the record"},
	{"create, in vain", "sql:WorkspaceFailed:before", "before the failure is recorded"},
	{"create, in vain", "sql:WorkspaceFailed:after", "after the failure is recorded"},
	{"probe", "sql:LeaseJobs/probe:before", "before the lease is asked for"},
	{"probe", "sql:LeaseJobs/probe:after", "after the lease"},
	{"probe", "call:ready:before", "before the question"},
	{"probe", "call:get:before", "after the answer, before the last look"},
	{"probe", "sql:WorkspaceReady:before", "before readiness is recorded"},
	{"probe", "sql:WorkspaceReady:after", "within that transaction, before its commit"},
	{"probe", "commit:WorkspaceReady:after", "after its commit"},
	{"cancel", "sql:LockIntent:before", "before the intent is locked"},
	{"cancel", "sql:WorkspaceCancelled:before", "before the cancellation"},
	{"cancel", "sql:WorkspaceCancelled:after", "within its transaction, before the commit"},
	{"cancel", "commit:WorkspaceCancelled:after", "after its commit, the call still running"},
	{"cancel", "sql:WorkspaceState:before", "after the call was ended"},
	{"cancel", "sql:ReleaseCleanup:before", "before the clean-up is let go"},
	{"cancel", "sql:ReleaseCleanup:after", "after the clean-up is let go"},
	{"cancelled meanwhile", "sql:LeaseJobs/create:after", "after the lease"},
	{"cancelled meanwhile", "call:create:before", "in the call, before the resource exists"},
	{"cancelled meanwhile", "call:create:after", "in the call, after the resource exists"},
	{"cancelled meanwhile", "sql:WorkspaceCreated:before", "after the call, before the record"},
	{"drain", "sql:WorkspaceDraining:before", "before the drain begins"},
	{"drain", "sql:WorkspaceDraining:after", "within its transaction, before the commit"},
	{"drain", "commit:WorkspaceDraining:after", "after its commit"},
	{"drain", "sql:LeaseJobs/drain:after", "after the lease"},
	{"drain", "sql:WorkspaceDrained:before", "before the end of the drain is recorded"},
	{"drain", "sql:WorkspaceDrained:after", "after it is recorded"},
	{"delete", "sql:LeaseJobs/delete:after", "after the lease"},
	{"delete", "call:delete:before", "in the call, before its effect"},
	{"delete", "call:delete:after", "in the call, after its effect"},
	{"delete", "sql:WorkspaceGone:before", "after the call, before the record"},
	{"delete", "sql:WorkspaceGone:after", "after the record, before anybody is told"},
	{"delete, again", "sql:RetryJob:before", "after a failure, before the retry is recorded"},
	{"delete, again", "sql:RetryJob:after", "after the retry is recorded"},
	{"delete, again", "call:delete:before", "in the second call, before its effect"},
	{"stop", "sql:WorkspaceStopping:before", "before the stop is ordered"},
	{"stop", "commit:WorkspaceStopping:after", "after it is ordered"},
	{"stop", "sql:LeaseJobs/stop:after", "after the lease"},
	{"stop", "call:stop:before", "in the call, before its effect"},
	{"stop", "call:stop:after", "in the call, after its effect"},
	{"stop", "sql:JobStopped:before", "after the call, before the record"},
	{"stop", "sql:JobStopped:after", "after the record"},
	{"start", "sql:WorkspaceStarting:before", "before the start is ordered"},
	{"start", "commit:WorkspaceStarting:after", "after it is ordered"},
	{"start", "sql:LeaseJobs/start:after", "after the lease"},
	{"start", "call:start:before", "in the call, before its effect"},
	{"start", "call:start:after", "in the call, after its effect"},
	{"start", "sql:WorkspaceStarted:before", "after the call, before the record"},
	{"start", "sql:WorkspaceStarted:after", "after the record, before anybody is told"},
}

// replaced are the points where a worker that wakes late takes away what its successor made, notices, and has it
// replaced. Everywhere else it changes nothing.
var replaced = map[point]bool{
	{"create, again", "call:delete:before", "in the delete before the retry, before its effect"}: true,
}

// I4, I5, I6: a worker is killed or frozen at each point of create, probe, cancel, drain and delete.
func TestPoints(t *testing.T) {
	t.Parallel()
	r, _ := random(t)
	_, thorough := rounds(t, 0)
	type run struct {
		point
		frozen bool
	}
	var runs []run
	for _, p := range points {
		for _, frozen := range []bool{false, true} {
			if thorough || r.IntN(3) == 0 {
				runs = append(runs, run{p, frozen})
			}
		}
	}
	var mu sync.Mutex
	rows := map[run]string{}
	t.Run("points", func(t *testing.T) {
		for _, one := range runs {
			harm := map[bool]string{false: "killed", true: "frozen"}[one.frozen]
			t.Run(strings.ReplaceAll(one.plot+": "+one.words+", "+harm, " ", "_"), func(t *testing.T) {
				t.Parallel()
				what := one.run(t, one.frozen)
				mu.Lock()
				defer mu.Unlock()
				rows[one] = what
			})
		}
	})
	table := "\n"
	for _, one := range runs {
		table += fmt.Sprintf("| %s | %s | %s | %s |\n", one.plot, one.words,
			map[bool]string{false: "killed", true: "frozen"}[one.frozen], rows[one])
	}
	t.Log(table)
}

func (p point) run(t *testing.T, frozen bool) string {
	w, pl := newWorld(t), plots[p.plot]
	first := w.start("first", p.moment, pl.fail)
	w.tier = cmp.Or(pl.before, pl.tier)
	w.pool(first.Server, 1, pl.spec)
	if pl.before != "" {
		w.settle(1, "before the start")
		w.tier = pl.tier
		w.pool(first.Server, 1, pl.spec)
	}
	switch pl.scale {
	case whenReady:
		w.settle(1, "before the harm")
		w.pool(first.Server, 0, pl.spec)
	case whileMaking:
		w.eventually("a create runs", func() bool {
			jobs := w.look().jobs
			return len(jobs) == 1 && jobs[0].State == "running"
		})
		w.pool(first.Server, 0, pl.spec)
	case kept, whileGone:
	}
	first.awaitStop(strings.TrimSuffix(p.moment, "#2"))
	if p.moment == "sql:LeaseJobs/create:before" {
		w.eventually("there is something to lease", func() bool { return len(w.look().jobs) > 0 })
	}
	if frozen {
		first.freeze()
	} else {
		first.Kill()
	}

	second := w.start("second", never, "")
	if pl.scale == whileGone {
		w.pool(second.Server, 0, pl.spec)
	}
	w.settle(pl.want, "by the second process")
	if !frozen {
		return second.said(t, pl.want)
	}

	before := w.look()
	late := first.wake()
	if replaced[p] {
		w.eventually("what was taken away is noticed", func() bool { return w.look().history > before.history })
	}
	require.Equal(t, 0, first.Stop(), "the process that woke ends in order")
	w.settle(pl.want, "after the first has woken")
	if !replaced[p] {
		require.Equal(t, before, w.look(), "a late worker changed something; it said: %s", late)
	}
	return second.said(t, pl.want) + "; it woke: " + late
}

// said is what there was at the end.
func (p *process) said(t *testing.T, want int) string {
	t.Helper()
	history, err := p.w.cloud.History()
	require.NoError(t, err)
	made := 0
	for _, e := range history {
		if !e.Deleted {
			made++
		}
	}
	return fmt.Sprintf("%d at the provider, %d made in all", want, made)
}

// I4: what a worker made late is removed even if it dies before it can do so itself: by the sweep.
func TestPoints_diesAfterALateCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("first", "call:create:before,call:create:after", "")
	w.pool(first.Server, 1, "")
	first.awaitStop("call:create:before")
	first.freeze()
	second := w.start("second", never, "")
	w.pool(second.Server, 0, "")
	w.settle(0, "by the second process")
	require.Equal(t, "late create <nil>", first.wake())
	first.awaitStop("call:create:after")
	require.NotEmpty(t, w.settled(0), "there is what was made late")
	first.Kill()
	w.start("third", never, "") // which sweeps as it starts, and then each minute
	w.settle(0, "by the sweep")
}
