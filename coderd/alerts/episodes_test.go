package alerts

import (
	"context"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// What the watchdog sees becomes one episode of each kind and subject, whichever replica sees it, and ends when none does.
func TestEpisodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	replica := func() *Watchdog {
		o := NotifierOptions{
			Store: store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(), NewID: uuid.New,
		}
		return NewWatchdog(WatchdogOptions{
			Clock: o.Clock, Log: o.Log, Registerer: o.Registerer, Reader: NewReader(store, o.Clock, nil), Notifier: NewNotifier(o),
		})
	}
	here, there := replica(), replica()
	open := func() map[string]int {
		rows, err := store.Pool.Query(ctx, "SELECT kind FROM notifications WHERE ended_at IS NULL")
		require.NoError(t, err)
		defer rows.Close()
		found := map[string]int{}
		for rows.Next() {
			var kind string
			require.NoError(t, rows.Scan(&kind))
			found[kind]++
		}
		require.NoError(t, rows.Err())
		return found
	}
	nobodyElse := &Snapshot{Judged: true} // judges what this replica cannot
	a, b := uuid.New(), uuid.New()
	wrong := (&Snapshot{Staleness: time.Minute, Presets: []Preset{
		{ID: a, Template: "go", Preset: "small", HardLimit: "hard limit: 3 failed creates"}, {ID: b, Template: "go", Preset: "large", Unattainable: "needs 12, may have 10"},
	}}).episodes()
	require.Equal(t, map[Kind][]Episode{
		HardLimit:    {{Subject: a.String(), Template: "go", Preset: "small", Detail: "hard limit: 3 failed creates"}},
		Unattainable: {{Subject: b.String(), Template: "go", Preset: "large", Detail: "needs 12, may have 10"}},
	}, wrong)
	for range 3 {
		wrong[Stale] = []Episode{{Subject: "installation", Detail: "late"}}
		require.NoError(t, here.record(ctx, nobodyElse, wrong))
		wrong[Stale] = []Episode{{Subject: "installation", Detail: "later"}}
		require.NoError(t, there.record(ctx, nobodyElse, wrong))
	}
	require.Equal(t, map[string]int{"hard-limit": 1, "stale": 1, "unattainable": 1}, open())

	_, err := store.Pool.Exec(ctx, "UPDATE notifications SET created_at = created_at - interval '1 minute'")
	require.NoError(t, err)
	wrong[HardLimit] = nil
	require.NoError(t, there.record(ctx, nobodyElse, wrong))
	require.Equal(t, map[string]int{"stale": 1, "unattainable": 1}, open())
	require.NoError(t, replica().record(ctx, nobodyElse, nil), "a replica that has just started ends what is over")
	require.Empty(t, open())
}

// An episode that only replicas of another site can judge is neither opened nor ended by those that cannot.
func TestEpisodes_judgedElsewhere(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	o := NotifierOptions{
		Store: store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(), NewID: uuid.New,
	}
	w := NewWatchdog(WatchdogOptions{Log: o.Log, Registerer: o.Registerer, Reader: NewReader(store, o.Clock, nil), Notifier: NewNotifier(o)})
	open := func() (n int) {
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM notifications WHERE ended_at IS NULL").Scan(&n))
		return n
	}
	look := func(r ...Refused) {
		snap := &Snapshot{Refused: r, Judged: true}
		require.NoError(t, w.record(ctx, snap, snap.episodes()))
	}
	refused := Refused{PresetID: uuid.New(), Provider: "docker", Site: "a", Claimed: 1, Why: "check spec: it may write"}
	elsewhere := refused
	elsewhere.Unjudged, elsewhere.Why = true, ""
	look(elsewhere)
	require.Zero(t, open())
	look(refused)
	_, err := store.Pool.Exec(ctx, "UPDATE notifications SET created_at = created_at - interval '1 minute'")
	require.NoError(t, err)
	look(elsewhere)
	require.Equal(t, 1, open())
	require.NoError(t, w.record(ctx, &Snapshot{}, nil))
	require.Equal(t, 1, open(), "what is not known yet is not over")
	look()
	require.Zero(t, open())
}
