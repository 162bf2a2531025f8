package gitea_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
)

// TestAnswers: what Gitea, or what stands before it, answers to a listing, and what that is to us.
func TestAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		status int
		retry  string
		want   error
		text   string
	}{
		{name: "bad token", status: 401, want: forge.ErrRefused, text: "what is wrong"},
		{name: "no permission", status: 403, want: forge.ErrRefused, text: "what is wrong"},
		{name: "hidden", status: 404, want: forge.ErrRefused, text: "the credential may not see it"},
		{name: "too old", status: 405, want: forge.ErrUnsupported, text: "from 1.24 on"},
		{name: "broken", status: 500, text: "status 500: what is wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := connect(t, now, func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "token a-secret", r.Header.Get("Authorization"))
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(`{"message": "what is wrong", "url": "https://gitea.example/api/swagger"}`))
			}).Runners(t.Context())
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "a-secret")
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

// A Gitea that has too many requests is asked nothing until the time that it names.
func TestRateLimited(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var asked atomic.Int32
	f := connect(t, now, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for range 2 {
		_, err := f.Runners(t.Context())
		var limited *forge.RateLimited
		require.ErrorAs(t, err, &limited)
		require.Equal(t, now.Add(90*time.Second), limited.Until)
	}
	require.EqualValues(t, 1, asked.Load())
}

func connect(t *testing.T, now time.Time, answer http.HandlerFunc) forge.Forge {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	f, err := gitea.Kind.Connect(forge.Connection{
		URL: server.URL, Scope: forge.Organization, Path: "acme", Token: "a-secret", Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	return f
}
