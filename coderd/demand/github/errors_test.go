package github_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
)

// TestAnswers: what GitHub answers to the removal of a runner, and what that is to us.
func TestAnswers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	reset := strconv.FormatInt(now.Add(20*time.Minute).Unix(), 10)
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   error
		until  time.Duration // of a limit
		text   string
	}{
		{name: "done", status: 204},
		{
			name: "busy", status: 422, body: `{"message": "Runner \"one\" is currently running a job and cannot be deleted."}`,
			want: forge.ErrBusy, text: "is currently running a job",
		},
		{name: "bad token", status: 401, body: `{"message": "Bad credentials"}`, want: forge.ErrRefused, text: "Bad credentials"},
		{
			name: "no permission", status: 403, body: `{"message": "Resource not accessible by integration"}`, want: forge.ErrRefused,
			text: "not accessible by integration",
		},
		{name: "gone", status: 404, body: `{"message": "Not Found"}`, want: forge.ErrNotFound},
		{
			name: "primary limit", status: 403, body: `{"message": "API rate limit exceeded"}`,
			header: map[string]string{"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset},
			until:  20 * time.Minute,
		},
		{
			name: "secondary limit", status: 403, header: map[string]string{"Retry-After": "90"}, until: 90 * time.Second,
			body: `{"message": "You have exceeded a secondary rate limit", "documentation_url": "https://x/#secondary-rate-limits"}`,
		},
		{
			name: "secondary limit without a time", status: 403, until: time.Minute,
			body: `{"message": "You have exceeded a secondary rate limit", "documentation_url": "https://x/#secondary-rate-limits"}`,
		},
		{name: "too many", status: 429, until: time.Minute},
		{
			name: "too many, until a date", status: 429, until: 2 * time.Hour,
			header: map[string]string{"Retry-After": now.Add(2 * time.Hour).Format(http.TimeFormat)},
		},
		{name: "broken", status: 500, body: `oh no`, text: "status 500"},
		{name: "not JSON", status: 502, body: `<html>`, text: "status 502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet { // whether the entity is visible
					_, _ = w.Write([]byte(`{"total_count": 0, "runners": []}`))
					return
				}
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			f, err := github.Kind.Connect(forge.Connection{
				URL: server.URL, Scope: forge.Organization, Path: "acme", Token: "a-secret", Now: func() time.Time { return now },
			})
			require.NoError(t, err)
			err = f.RemoveRunner(t.Context(), 5)
			if c.status == 204 {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.text)
			assert.NotContains(t, err.Error(), "a-secret")
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			var limited *forge.RateLimited
			assert.Equal(t, c.until != 0, errors.As(err, &limited))
			if c.until != 0 {
				assert.Equal(t, now.Add(c.until), limited.Until.UTC())
			}
		})
	}
}

// TestRegister_page: where runners register is the address for people, which each installation has another of.
func TestRegister_page(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"runner": {"id": 5}, "encoded_jit_config": "c2VjcmV0"}`))
	}))
	t.Cleanup(server.Close)
	for scope, want := range map[forge.Scope]string{
		forge.Repository: "/acme/shop", forge.Organization: "/acme", forge.Enterprise: "/enterprises/acme",
	} {
		path := "acme"
		if scope == forge.Repository {
			path = "acme/shop"
		}
		f, err := github.Kind.Connect(forge.Connection{URL: server.URL + "/api/v3", Scope: scope, Path: path, Token: "a-secret"})
		require.NoError(t, err)
		r, err := f.Register(t.Context(), forge.NewRunner{Name: "one", Labels: []string{"linux"}})
		require.NoError(t, err)
		assert.Equal(t, forge.Registration{RunnerID: 5, JITConfig: "c2VjcmV0", URL: server.URL + want}, r)
	}
}
