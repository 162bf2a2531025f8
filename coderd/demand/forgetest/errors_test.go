package forgetest_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
)

// calls are one of each kind, with what they should say of a thing that is not there.
func calls(ctx context.Context, f forge.Forge) map[string]error {
	all := map[string]error{}
	_, all["Register"] = f.Register(ctx, forge.NewRunner{Name: "one", Labels: []string{"linux"}})
	_, all["Runners"] = f.Runners(ctx)
	_, all["RunnerNamed"] = f.RunnerNamed(ctx, "one")
	all["RemoveRunner"] = f.RemoveRunner(ctx, 5)
	_, all["Job"] = f.Job(ctx, "acme/shop", 5)
	_, all["OpenJobs"] = f.OpenJobs(ctx, []string{"acme/shop"})
	_, all["InstallHook"] = f.InstallHook(ctx, "https://prewarm.example/webhooks/acme", "the secret of the webhook", 0)
	return all
}

// TestRefused: a credential that is not good is told so by every call, in the forge's words, and is in none of them.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{})
			c := w.connection()
			c.Token = "another-secret"
			client, err := w.kind.Connect(c)
			require.NoError(t, err)
			for name, err := range calls(t.Context(), client) {
				require.ErrorIs(t, err, forge.ErrRefused, name)
				require.ErrorContains(t, err, "Bad credentials", name)
				assert.NotContains(t, err.Error(), c.Token, name)
			}
		})
	}
}

// TestHidden: an entity that is not shown is no reason to take its runners and jobs for gone.
func TestHidden(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{Roots: []string{"orgs/another"}})
			for name, err := range calls(t.Context(), w.client) {
				require.ErrorIs(t, err, forge.ErrRefused, name)
				require.NotErrorIs(t, err, forge.ErrNotFound, name)
			}
		})
	}
}

func TestNotThere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		_, err := w.client.RunnerNamed(t.Context(), "one")
		require.ErrorIs(t, err, forge.ErrNotFound)
		require.ErrorIs(t, w.client.RemoveRunner(t.Context(), 5), forge.ErrNotFound)
		_, err = w.client.Job(t.Context(), "acme/shop", 5)
		require.ErrorIs(t, err, forge.ErrNotFound)
	})
}

func TestConflict(t *testing.T) {
	t.Parallel()
	w := start(t, "github", forge.Organization, forgetest.Options{})
	_, err := w.client.Register(t.Context(), forge.NewRunner{Name: "one", Labels: []string{"linux"}})
	require.NoError(t, err)
	_, err = w.client.Register(t.Context(), forge.NewRunner{Name: "one", Labels: []string{"linux"}})
	require.ErrorIs(t, err, forge.ErrConflict)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	w := start(t, "github", forge.Organization, forgetest.Options{Groups: map[string]int64{"Big Machines": 7}})
	for range 3 {
		_, err := w.client.Register(t.Context(), forge.NewRunner{Name: "one", Labels: []string{"linux"}, Group: "big machines"})
		if err != nil {
			require.ErrorIs(t, err, forge.ErrConflict)
		}
	}
	assert.Equal(t, 1, w.Requests("runner-groups"), "groups are asked for once")
	_, err := w.client.Register(t.Context(), forge.NewRunner{Name: "two", Labels: []string{"linux"}, Group: "none"})
	require.ErrorContains(t, err, `no runner group "none"`)
	r := start(t, "github", forge.Repository, forgetest.Options{})
	_, err = r.client.Register(t.Context(), forge.NewRunner{Name: "two", Labels: []string{"linux"}, Group: "none"})
	require.ErrorIs(t, err, forge.ErrUnsupported)
}

// TestOldServer: before there were just-in-time configurations, runners registered with a token.
func TestOldServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		for _, scope := range []forge.Scope{forge.Repository, forge.Organization, forge.Enterprise} {
			t.Run(kind+"/"+string(scope), func(t *testing.T) {
				t.Parallel()
				w := start(t, kind, scope, forgetest.Options{OldServer: true})
				r, err := w.client.Register(t.Context(), forge.NewRunner{Name: "one", Labels: []string{"linux"}})
				require.NoError(t, err)
				assert.NotEmpty(t, r.Token)
				assert.Empty(t, r.JITConfig)
				w.run(t, "one", "linux")
				eventually(t, func() bool { return w.status(t, "one") == forge.Idle }, "idle")
				found, err := w.client.RunnerNamed(t.Context(), "one")
				require.NoError(t, err)
				require.NoError(t, w.client.RemoveRunner(t.Context(), found.ID))
			})
		}
	}
}

// Whether a forge makes configurations is asked for, without a runner coming of it.
func TestJIT(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		for range 2 {
			jit, err := w.client.JIT(t.Context())
			require.NoError(t, err)
			assert.Equal(t, !w.gitea, jit)
		}
		assert.Empty(t, w.RunnerNames())
		if !w.gitea {
			assert.Equal(t, 1, w.Requests("generate-jitconfig"), "a server that has them keeps them")
		}
	})
	old := start(t, "github", forge.Organization, forgetest.Options{OldServer: true})
	jit, err := old.client.JIT(t.Context())
	require.NoError(t, err)
	assert.False(t, jit)
	hidden := start(t, "github", forge.Organization, forgetest.Options{Roots: []string{"orgs/other"}})
	_, err = hidden.client.JIT(t.Context())
	require.ErrorIs(t, err, forge.ErrRefused)
}

// An entity's page is where people find it, which is not where the API is.
func TestPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		want := map[forge.Scope]string{
			forge.Repository: "/acme/shop", forge.Organization: "/acme", forge.Enterprise: "/enterprises/acme-corporation",
		}[w.scope]
		if w.gitea && w.scope == forge.Enterprise {
			want = "" // the whole instance
		}
		assert.Equal(t, w.URL+want, w.client.Page())
	})
}

func TestTools(t *testing.T) {
	t.Parallel()
	w := start(t, "github", forge.Organization, forgetest.Options{})
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	c := w.connection()
	c.Now = func() time.Time { return now }
	client, err := w.kind.Connect(c)
	require.NoError(t, err)
	for range 3 {
		tools, err := client.Tools(t.Context())
		require.NoError(t, err)
		require.Len(t, tools, 1)
		assert.Equal(t, "x64", tools[0].Arch)
	}
	assert.Equal(t, 1, w.Requests("downloads"), "cached for a minute")
	now = now.Add(time.Minute)
	_, err = client.Tools(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, w.Requests("downloads"))
	none, err := start(t, "gitea", forge.Organization, forgetest.Options{}).client.Tools(t.Context())
	require.NoError(t, err)
	assert.Empty(t, none)
}

// TestRateLimit: the limit is told, kept, and not run against.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := start(t, "github", forge.Organization, forgetest.Options{RateLimit: 4})
	for range 4 {
		_, err := w.client.Runners(t.Context())
		require.NoError(t, err)
	}
	rate := w.client.Rate()
	assert.Equal(t, 4, rate.Limit)
	assert.Equal(t, 0, rate.Remaining)
	asked := w.Requests("")
	var limited *forge.RateLimited
	_, err := w.client.Runners(t.Context())
	require.ErrorAs(t, err, &limited)
	assert.Equal(t, rate.ResetAt, limited.Until)
	assert.Equal(t, asked, w.Requests(""), "nothing was asked")

	fresh, err := w.kind.Connect(w.connection()) // one that does not know
	require.NoError(t, err)
	_, err = fresh.Runners(t.Context())
	require.ErrorAs(t, err, &limited)
	assert.Equal(t, rate.ResetAt, limited.Until)
}

// TestRateLimit_spared: listings leave some requests to runners.
func TestRateLimit_spared(t *testing.T) {
	t.Parallel()
	w := start(t, "github", forge.Organization, forgetest.Options{RateLimit: 10})
	for range 9 {
		_, err := w.client.Runners(t.Context())
		require.NoError(t, err)
	}
	_, err := w.client.OpenJobs(t.Context(), []string{"acme/shop"})
	require.ErrorContains(t, err, "1 of 10 requests remain")
	_, err = w.client.Register(t.Context(), forge.NewRunner{Name: "one", Labels: []string{"linux"}})
	require.NoError(t, err)
}

// TestRetryAfter: a secondary limit says for how long to keep off; then all is well again.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "app", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{})
			now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
			c := w.connection()
			c.Now = func() time.Time { return now }
			client, err := w.kind.Connect(c)
			require.NoError(t, err)
			w.LimitFor(time.Hour)
			var limited *forge.RateLimited
			_, err = client.Runners(t.Context())
			require.ErrorAs(t, err, &limited)
			assert.WithinDuration(t, now.Add(time.Hour), limited.Until, time.Minute)
			w.LimitFor(0)
			now = now.Add(2 * time.Hour)
			_, err = client.Runners(t.Context())
			require.NoError(t, err)
		})
	}
}

// TestBroken: an error of the server's own is none that means something.
func TestBroken(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "app", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{Faults: forgetest.Faults{Errors: 1}})
			for name, err := range calls(t.Context(), w.client) {
				require.Error(t, err, name)
				for _, known := range []error{
					forge.ErrNotFound, forge.ErrBusy, forge.ErrConflict, forge.ErrUnsupported, forge.ErrRefused,
				} {
					require.NotErrorIs(t, err, known, name)
				}
			}
		})
	}
}

// TestSlow: a call ends with its context, and so do those that wait for the same App's token.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "app", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{Faults: forgetest.Faults{Slow: 1, SlowFor: time.Hour}})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 3)
			for range cap(ended) {
				go func() {
					_, err := w.client.Runners(ctx)
					ended <- err
				}()
			}
			eventually(t, func() bool { return w.Requests("") > 0 }, "it was asked")
			stop()
			for range cap(ended) {
				require.ErrorIs(t, <-ended, context.Canceled)
			}
		})
	}
}

// TestCABundle: a forge with an authority of its own is trusted by the bundle, and only by it.
func TestCABundle(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	for _, kind := range []string{"github", "app", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{TLS: &tls.Config{Certificates: certified.TLS.Certificates}})
			_, err := w.client.Runners(t.Context())
			require.ErrorContains(t, err, "certificate")
			c := w.connection()
			c.CABundle = bundle
			client, err := w.kind.Connect(c)
			require.NoError(t, err)
			_, err = client.Runners(t.Context())
			require.NoError(t, err)
			c.CABundle = []byte("no certificate")
			_, err = w.kind.Connect(c)
			require.ErrorContains(t, err, "CA bundle")
		})
	}
}

// TestRedirect: the credential goes to the forge, and nowhere that it points to.
func TestRedirect(t *testing.T) {
	t.Parallel()
	got := make(chan string, 8)
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		http.NotFound(w, r)
	}))
	t.Cleanup(thief.Close)
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	for name, kind := range map[string]forge.Kind{"github": github.Kind, "gitea": gitea.Kind} {
		f, err := kind.Connect(forge.Connection{URL: server.URL, Scope: forge.Organization, Path: "acme", Token: token})
		require.NoError(t, err)
		_, err = f.Runners(t.Context())
		require.Error(t, err)
		assert.Empty(t, <-got, name)
	}
}

// TestAppToken: one token serves many calls, until it is about to end.
func TestAppToken(t *testing.T) {
	t.Parallel()
	w := start(t, "app", forge.Organization, forgetest.Options{})
	for range 5 {
		_, err := w.client.Runners(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, 1, w.Requests("access_tokens"))
	short := start(t, "app", forge.Organization, forgetest.Options{TokenLife: 30 * time.Second})
	for range 3 {
		_, err := short.client.Runners(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, 3, short.Requests("access_tokens"), "a token that ends within the minute is renewed")
}

func TestConnect(t *testing.T) {
	t.Parallel()
	good := forge.Connection{URL: "https://forge.example/api/v3", Scope: forge.Organization, Path: "acme", Token: token}
	for name, kind := range map[string]forge.Kind{"github": github.Kind, "gitea": gitea.Kind} {
		_, err := kind.Connect(good)
		require.NoError(t, err, name)
		for what, spoil := range map[string]func(c *forge.Connection){
			"URL":   func(c *forge.Connection) { c.URL = "forge.example" },
			"path":  func(c *forge.Connection) { c.Path = "acme/shop" },
			"up":    func(c *forge.Connection) { c.Scope, c.Path = forge.Repository, "acme/.." },
			"token": func(c *forge.Connection) { c.Token = "" },
			"App": func(c *forge.Connection) {
				c.App = &forge.App{ID: 1, InstallationID: 2, PrivateKey: []byte("a secret that is no key")}
			},
		} {
			c := good
			spoil(&c)
			_, err := kind.Connect(c)
			require.Error(t, err, name+" "+what)
			assert.NotContains(t, err.Error(), "a secret", name)
		}
	}
}
