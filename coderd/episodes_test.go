package coderd

import (
	"context"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/gauges"
	"github.com/prewarm-dev/prewarm/coderd/notify"
	"github.com/prewarm-dev/prewarm/coderd/watchdog"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// What the watchdog sees becomes one episode of each kind and subject, whichever replica sees it, and ends when none does.
func TestEpisodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	notifier := func() *notify.Notifier {
		return notify.New(notify.Options{
			Store: store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(), NewID: uuid.New,
		})
	}
	here, there := newEpisodes(notifier()), newEpisodes(notifier())
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
	a, b := uuid.New(), uuid.New()
	view := viewOf(&gauges.Snapshot{Staleness: time.Minute, Presets: []gauges.Preset{
		{ID: a, Template: "go", Preset: "small", HardLimit: "hard limit: 3 failed creates"}, {ID: b, Template: "go", Preset: "large", Unattainable: "needs 12, may have 10"},
	}})
	require.Equal(t, time.Minute, view.Staleness)
	require.Equal(t, []watchdog.Subject{
		{ID: a.String(), Template: "go", Preset: "small", Detail: "hard limit: 3 failed creates"},
	}, view.Stopped)
	require.Equal(t, []watchdog.Subject{
		{ID: b.String(), Template: "go", Preset: "large", Detail: "needs 12, may have 10"},
	}, view.Short)
	for range 3 {
		require.NoError(t, here.tell(ctx, view, "late"))
		require.NoError(t, there.tell(ctx, view, "later"))
	}
	require.Equal(t, map[string]int{"hard-limit": 1, "stale": 1, "unattainable": 1}, open())

	_, err := store.Pool.Exec(ctx, "UPDATE notifications SET created_at = created_at - interval '1 minute'")
	require.NoError(t, err)
	view.Stopped = nil
	require.NoError(t, there.tell(ctx, view, "later"))
	require.Equal(t, map[string]int{"stale": 1, "unattainable": 1}, open())
	require.NoError(t, newEpisodes(notifier()).tell(ctx, watchdog.View{}, ""), "a replica that has just started ends what is over")
	require.Empty(t, open())
}
