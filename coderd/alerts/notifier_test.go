package alerts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const secret = "hmac-s3cret-0123456789"

// receiver is a webhook on the other side.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []sdk.Notification
	forged int
	answer func(n int, w http.ResponseWriter) // the nth request, from 0; nil: fine
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	hook, err := alerts.ParseWebhook("http://x", secret)
	require.NoError(t, err)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var n sdk.Notification
		if err == nil {
			err = json.Unmarshal(body, &n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		want := hook.Signature(req.Header.Get("X-Prewarm-Timestamp"), body)
		if err != nil || req.Header.Get("X-Prewarm-Signature") != want ||
			req.Header.Get("X-Prewarm-Delivery") != n.ID.String() || req.Header.Get("X-Prewarm-Event") != n.Kind {
			r.forged++
		}
		r.got = append(r.got, n)
		if r.answer != nil {
			r.answer(len(r.got)-1, w)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) received() []sdk.Notification {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sdk.Notification(nil), r.got...)
}

// start runs a notifier that writes its log to the buffer.
func start(t *testing.T, store *database.Store, address string, log *lockedBuffer) *alerts.Notifier {
	t.Helper()
	hook, err := alerts.ParseWebhook(address, secret)
	require.NoError(t, err)
	n := alerts.NewNotifier(alerts.NotifierOptions{
		Store: store, Clock: quartz.NewReal(), Log: slog.Make(sloghuman.Sink(log)).Leveled(slog.LevelDebug),
		Registerer: prometheus.NewRegistry(), NewID: uuid.New, Webhook: hook, Installation: uuid.New(),
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return n
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 20*time.Millisecond, what)
}

// One episode is one notification, however many replicas notice it and however often; what comes again is another.
func TestOneForEachEpisode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	rec := newReceiver(t, nil)
	replicas := []*alerts.Notifier{
		start(t, store, rec.URL, &lockedBuffer{}), start(t, store, rec.URL, &lockedBuffer{}), start(t, store, rec.URL, &lockedBuffer{}),
	}
	episode := alerts.Episode{Subject: "preset-1", Template: "go", Preset: "small", Detail: "hard limit: 3 failed creates"}
	var opened atomic.Int32
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			_, fresh, err := replicas[i%3].Open(ctx, alerts.HardLimit, episode)
			assert.NoError(t, err)
			if fresh {
				opened.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, opened.Load())
	eventually(t, "delivered", func() bool { return len(rec.received()) == 1 })
	_, _, err := replicas[0].Open(ctx, alerts.Unattainable, episode)
	require.NoError(t, err, "another kind is another episode")
	eventually(t, "the other kind", func() bool { return len(rec.received()) == 2 })

	// A replica that looked before it began does not end it, however long ago that is here; later it is over, and then it is new.
	_, err = store.Pool.Exec(ctx, "UPDATE notifications SET created_at = prewarm_now() + interval '1 hour'")
	require.NoError(t, err)
	ended, err := replicas[1].End(ctx, alerts.HardLimit, nil)
	require.NoError(t, err)
	require.Empty(t, ended)
	_, err = store.Pool.Exec(ctx, "UPDATE notifications SET created_at = prewarm_now() - interval '1 minute'")
	require.NoError(t, err)
	ended, err = replicas[1].End(ctx, alerts.HardLimit, []string{"preset-1"})
	require.NoError(t, err)
	require.Empty(t, ended, "it still is so")
	ended, err = replicas[1].End(ctx, alerts.HardLimit, []string{"preset-2"})
	require.NoError(t, err)
	require.Equal(t, []string{"preset-1"}, ended)
	_, fresh, err := replicas[2].Open(ctx, alerts.HardLimit, episode)
	require.NoError(t, err)
	require.True(t, fresh)
	eventually(t, "another episode", func() bool { return len(rec.received()) == 3 })
	require.Zero(t, rec.forged)
	require.Equal(t, "go", rec.received()[0].Template)
}

// What fails is tried again under the same id until it arrives, and nothing that is said about it holds the secret or the
// address.
func TestRetriedAndSilentAboutSecrets(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	rec := newReceiver(t, func(n int, w http.ResponseWriter) {
		switch n {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1: // a signed body is not for others
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 2:
			panic(http.ErrAbortHandler) // hangs up
		}
	})
	log := &lockedBuffer{}
	n := start(t, store, rec.URL+"/services/t0k3n?key=qu3ry", log)
	_, _, err := n.Open(context.Background(), alerts.Stale, alerts.Episode{Subject: "installation", Detail: "late"})
	require.NoError(t, err)
	errs := map[string]bool{}
	eventually(t, "delivered", func() bool {
		var state, lastError string
		require.NoError(t, store.Pool.QueryRow(context.Background(), "SELECT state, last_error FROM notifications").
			Scan(&state, &lastError))
		errs[lastError] = true
		return state == "delivered"
	})
	got := rec.received()
	require.Len(t, got, 4)
	for _, g := range got {
		require.Equal(t, got[0].ID, g.ID)
	}
	require.Zero(t, rec.forged)
	said := log.String() + fmt.Sprint(errs) + fmt.Sprintf("%v %+v %#v %s", n.Webhook, n.Webhook, n.Webhook, n.Webhook)
	require.Contains(t, said, "answered with status 500")
	require.Contains(t, said, "answered with status 307")
	for _, leak := range []string{secret, "t0k3n", "qu3ry"} {
		require.NotContains(t, said, leak)
	}
}

// An attempt that ends late changes nothing, and what could not be told for a day is given up.
func TestLateAndOld(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	lease := func() database.Notification {
		due, err := alertsdb.New(store).LeaseNotifications(ctx, alertsdb.LeaseNotificationsParams{KeepS: 86400, Batch: 1, LeaseS: 0})
		require.NoError(t, err)
		require.Len(t, due, 1)
		return due[0]
	}
	quiet := alerts.NewNotifier(alerts.NotifierOptions{
		Store: store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: prometheus.NewRegistry(), NewID: uuid.New,
	})
	_, _, err := quiet.Open(ctx, alerts.HardLimit, alerts.Episode{Subject: "p", Detail: "x"})
	require.NoError(t, err)
	first, second := lease(), lease() // the first one's lease is over at once
	n, err := alertsdb.New(store).NotificationDelivered(ctx, alertsdb.NotificationDeliveredParams{ID: first.ID, Attempts: first.Attempts})
	require.NoError(t, err)
	require.Zero(t, n, "a late attempt")
	n, err = alertsdb.New(store).NotificationFailed(ctx, alertsdb.NotificationFailedParams{ID: second.ID, Attempts: second.Attempts, LastError: "no"})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	_, err = store.Pool.Exec(ctx, "UPDATE notifications SET created_at = created_at - interval '25 hours'")
	require.NoError(t, err)
	rec := newReceiver(t, nil)
	start(t, store, rec.URL, &lockedBuffer{})
	eventually(t, "given up", func() bool {
		row, err := alertsdb.New(store).NotificationByID(ctx, first.ID)
		return err == nil && row.State == database.NotificationStateAbandoned
	})
	require.Empty(t, rec.received())
}

func TestParseWebhook(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "example.com", "ftp://example.com/t0k3n", "http://", "https://exa mple/t0k3n"} {
		_, err := alerts.ParseWebhook(address, secret)
		require.ErrorContains(t, err, "must look like", address)
		require.NotContains(t, err.Error(), "t0k3n")
	}
	_, err := alerts.ParseWebhook("https://example.com", "short")
	require.ErrorContains(t, err, "has 5 bytes")
	require.NotContains(t, err.Error(), "short")
}
