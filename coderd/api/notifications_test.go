package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// TestNotifications: a test goes to the webhook and is on the record, a failed one says why without the address, and
// without a webhook the answer says what to do.
func TestNotifications(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	before := w.dump()
	_, err := w.as("admin").TestNotification(ctx)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err))
	require.ErrorContains(t, err, "--notify-url")
	require.Equal(t, before, w.dump())

	var status atomic.Int32
	status.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(status.Load())) }))
	t.Cleanup(receiver.Close)
	hook, err := alerts.ParseWebhook(receiver.URL+"/hooks/t0k3n", "0123456789abcdef")
	require.NoError(t, err)
	log := slogtest.Make(t, &slogtest.Options{IgnoreErrors: true})
	notifier := alerts.NewNotifier(alerts.NotifierOptions{
		Store: w.store, Clock: quartz.NewReal(), Log: log, Registerer: prometheus.NewRegistry(), NewID: uuid.New, Webhook: hook,
	})
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); notifier.Run(running) }()
	t.Cleanup(func() { stop(); <-done })
	w.url = w.serve(api.Options{Log: log, Notifier: notifier})

	got, err := w.as("admin").TestNotification(ctx)
	require.NoError(t, err)
	require.Equal(t, "delivered", got.State)
	require.Equal(t, "test", got.Kind)
	status.Store(http.StatusInternalServerError)
	got, err = w.as("admin").TestNotification(ctx)
	require.NoError(t, err)
	require.Equal(t, "pending", got.State)
	require.Equal(t, receiver.URL+" answered with status 500", got.LastError)

	list, err := w.as("auditor").Notifications(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	entries, err := w.as("auditor").Audit(ctx, sdk.AuditFilter{Limit: 2})
	require.NoError(t, err)
	for _, e := range entries.Entries {
		require.Equal(t, string(auth.ActTestNotification), e.Action)
		require.Equal(t, "admin", e.Actor)
	}
}
