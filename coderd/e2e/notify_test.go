package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const broken = `
providers: [{name: cloud, kind: sim, config: {root: %q}}]
templates:
  - name: a
    provider: cloud
    spec: {fail_permanent: 1}
    presets: [{name: default, prebuilds: {instances: 3}}]
`

// C8: a preset whose creation stopped is told to people once, by whichever replica, signed.
func TestNotify_hardLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const secret = "s3cret-of-the-webhook"
	var mu sync.Mutex
	var got []sdk.Notification
	forged := 0
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hook, err := alerts.ParseWebhook("http://x", secret)
		var n sdk.Notification
		mu.Lock()
		defer mu.Unlock()
		if err != nil || json.Unmarshal(body, &n) != nil ||
			r.Header.Get("X-Prewarm-Signature") != hook.Signature(r.Header.Get("X-Prewarm-Timestamp"), body) {
			forged++
		}
		got = append(got, n)
	}))
	t.Cleanup(receiver.Close)
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	servers := e2etest.StartAll(t, 2, e2etest.Options{
		PostgresURL: dbtest.URL(t), Tick: time.Second,
		Env: []string{"PREWARM_NOTIFY_URL=" + receiver.URL + "/t0k3n", "PREWARM_NOTIFY_SECRET_FILE=" + file},
	})
	apply(ctx, t, servers[0].Client, broken, t.TempDir())
	var list []sdk.NotificationStatus
	eventually(t, "told", func() bool {
		var err error
		list, err = servers[1].Client.Notifications(ctx)
		require.NoError(t, err)
		return len(list) > 0 && list[0].State == "delivered"
	})
	require.Len(t, list, 1)
	require.Equal(t, "hard-limit", list[0].Kind)
	require.Equal(t, "a/default", list[0].Template+"/"+list[0].Preset)
	require.Nil(t, list[0].EndedAt)
	test, err := servers[1].Client.TestNotification(ctx)
	require.NoError(t, err)
	require.Equal(t, "delivered", test.State)
	for _, s := range servers {
		require.Zero(t, s.Stop())
		for _, leak := range []string{secret, "t0k3n"} {
			require.NotContains(t, s.Log(), leak)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, forged)
	require.Len(t, got, 2)
	require.Equal(t, list[0].Notification, got[0])
	require.Equal(t, test.Notification, got[1])
}
