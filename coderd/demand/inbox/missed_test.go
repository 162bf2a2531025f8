package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

func (w *world) age() {
	w.exec("UPDATE forge_jobs SET seen_at = seen_at - interval '3 minutes', asked_at = asked_at - interval '3 minutes'")
}

// More than a round fetches: the next rounds go on from there, and nothing is fetched twice.
func TestMissed_manyDeliveries(t *testing.T) {
	t.Parallel()
	const many = 120
	w := newWorld(t)
	s := w.service("a")
	hub := &memory{kind: w.acme.Kind, keeps: true}
	for i := range many {
		hub.all = append(hub.all, queuedJob(i+1, `"linux"`))
	}
	w.accept(s, hub.all[7], hub.all[60])
	w.directory.forges[w.acme.ID] = hub
	fetched := func() int { return w.count("SELECT count(*) FROM forge_deliveries WHERE fetched") }
	for _, want := range []int{mostFetched, 2 * mostFetched, many - 2, many - 2} {
		require.NoError(t, s.Missed(t.Context(), w.acme.ID))
		require.Equal(t, want, fetched())
	}
	require.NoError(t, s.Drain(t.Context()))
	require.Len(t, w.jobs("j.state = 'queued'"), many)
	require.Equal(t, 1, w.count("SELECT count(*) FROM forge_status WHERE deliveries_through > now() - interval '1 minute'"))
}

// A job that the forge does not know any more is over, but only where it is sure that the forge would say so.
func TestMissed_gone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	w.accept(s, queuedJob(1, `"linux"`), queuedJob(2, `"linux"`))
	require.NoError(t, s.Drain(t.Context()))
	hub := &memory{kind: w.acme.Kind, all: []delivery{queuedJob(2, `"linux"`)}, lost: map[int64]bool{1: true}}
	w.directory.forges[w.acme.ID] = hub

	require.NoError(t, s.Missed(t.Context(), w.acme.ID))
	require.Zero(t, hub.asked, "both were heard of a moment ago")
	w.age()
	w.directory.forges[w.acme.ID] = &blind{memory: hub}
	require.NoError(t, s.Missed(t.Context(), w.acme.ID))
	require.Len(t, w.jobs("j.state = 'queued'"), 2, "the credential may not see the repository any more")

	w.age()
	w.directory.forges[w.acme.ID] = hub
	hub.asked = 0
	require.NoError(t, s.Missed(t.Context(), w.acme.ID))
	require.Equal(t, 1, hub.asked, "the other one is in the listing")
	got := w.jobs("true")
	require.Equal(t, []string{"completed", "gone", "queued", ""}, []string{got[0].State, got[0].Conclusion, got[1].State, got[1].Conclusion})
	require.NotNil(t, got[0].CompletedAt)
}

// blind is a forge that shows nothing to the credential.
type blind struct{ *memory }

func (*blind) Job(context.Context, string, int64) (forge.Job, error) {
	return forge.Job{}, forge.ErrNotFound
}

func (*blind) OpenJobs(context.Context, []string) ([]forge.Job, error) { return nil, forge.ErrNotFound }

// The forge's errors end the round, and are the caller's.
func TestMissed_errors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	limit := &forge.RateLimited{Until: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)}
	hub := &memory{kind: w.acme.Kind, keeps: true, failing: limit}
	w.directory.forges[w.acme.ID] = hub
	var limited *forge.RateLimited
	require.ErrorAs(t, s.Missed(t.Context(), w.acme.ID), &limited)
	require.Zero(t, w.count("SELECT count(*) FROM forge_status WHERE deliveries_through IS NOT NULL"), "it is asked for again")
	hub.keeps = false
	require.ErrorAs(t, s.Missed(t.Context(), w.acme.ID), &limited)
	require.Zero(t, w.count("SELECT count(*) FROM forge_status WHERE jobs_listed_at IS NOT NULL"))
	hub.failing = errors.New("away")
	require.ErrorContains(t, s.Missed(t.Context(), w.acme.ID), "away")
	hub.failing = nil
	require.NoError(t, s.Missed(t.Context(), w.acme.ID))
	require.Equal(t, 1, w.count("SELECT count(*) FROM forge_status WHERE jobs_listed_at IS NOT NULL"))
}

// Where little is left of the forge's limit, it is left to runners.
func TestMissed_leavesRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service("a")
	hub := &tight{memory: &memory{kind: w.acme.Kind, keeps: true, all: []delivery{queuedJob(1, `"linux"`)}}}
	w.directory.forges[w.acme.ID] = hub
	hub.rate = forge.Rate{Limit: 100, Remaining: 19}
	require.NoError(t, s.Missed(t.Context(), w.acme.ID))
	require.Zero(t, w.count("SELECT count(*) FROM forge_deliveries"))
	hub.rate.Remaining = 20
	require.NoError(t, s.Missed(t.Context(), w.acme.ID))
	require.Equal(t, 1, w.count("SELECT count(*) FROM forge_deliveries"))
}

type tight struct {
	*memory
	rate forge.Rate
}

func (f *tight) Rate() forge.Rate { return f.rate }

// With any number of repositories each has its turn, no turn is empty, and after the last the first is next.
func TestTurn(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4*mostRepositories; n++ {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprint(i)
		}
		var got, first []string
		at := time.Unix(0, 0)
		for len(got) < n {
			now := turn(all, at)
			require.NotEmpty(t, now, "%d repositories", n)
			require.LessOrEqual(t, len(now), mostRepositories)
			if first == nil {
				first = now
			}
			got = append(got, now...)
			at = at.Add(time.Minute)
		}
		require.Equal(t, all, got)
		require.Equal(t, first, turn(all, at), "%d repositories", n)
	}
}
