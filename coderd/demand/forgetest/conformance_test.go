package forgetest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
)

const token = "secret-token-of-the-test"

// world is a forge with a client of one entity of it.
type world struct {
	*forgetest.Forge
	kind   forge.Kind
	scope  forge.Scope
	gitea  bool
	app    bool
	client forge.Forge
	work   *work
}

// work is a clock of which a test can hold back the end of jobs.
type work struct {
	quartz.Clock
	hold sync.Mutex // no job that is at work while it is locked ends
}

func (c *work) NewTimer(d time.Duration, tags ...string) *quartz.Timer {
	if slices.Contains(tags, "work") {
		c.hold.Lock()
		defer c.hold.Unlock()
	}
	return c.Clock.NewTimer(d, tags...)
}

// key is an App's, made once.
var key = sync.OnceValue(func() []byte {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
})

func (w *world) connection() forge.Connection {
	c := forge.Connection{URL: w.API, Scope: w.scope, Token: token}
	switch w.scope {
	case forge.Repository:
		c.Path = "acme/shop"
	case forge.Organization:
		c.Path = "acme"
	case forge.Enterprise:
		c.Path = "acme-corporation"
	}
	if w.app {
		c.Token, c.App = "", &forge.App{ID: 1, InstallationID: 2, PrivateKey: key()}
	}
	return c
}

func start(t *testing.T, kind string, scope forge.Scope, opts forgetest.Options) *world {
	t.Helper()
	w := &world{kind: github.Kind, scope: scope, app: kind == "app"}
	if kind == "gitea" {
		w.kind, w.gitea, opts.Gitea = gitea.Kind, true, true
	}
	w.work = &work{Clock: quartz.NewReal()}
	opts.Token, opts.Clock = token, cmp.Or[quartz.Clock](opts.Clock, w.work)
	f, err := forgetest.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	w.Forge = f
	w.client, err = w.kind.Connect(w.connection())
	require.NoError(t, err)
	return w
}

// each runs a test with every kind of forge, credential and scope.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, kind := range []string{"github", "app", "gitea"} {
		for _, scope := range []forge.Scope{forge.Repository, forge.Organization, forge.Enterprise} {
			t.Run(kind+"/"+string(scope), func(t *testing.T) {
				t.Parallel()
				test(t, start(t, kind, scope, forgetest.Options{}))
			})
		}
	}
}

func (w *world) root() string {
	switch {
	case w.scope == forge.Repository:
		return "repos/acme/shop"
	case w.scope == forge.Organization:
		return "orgs/acme"
	case w.gitea:
		return "admin"
	}
	return "enterprises/acme-corporation"
}

// run registers a runner and runs its program; what it ends with comes by the channel.
func (w *world) run(t *testing.T, name string, labels ...string) <-chan error {
	t.Helper()
	r, err := w.client.Register(t.Context(), forge.NewRunner{Name: name, Labels: labels})
	require.NoError(t, err)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	if r.JITConfig == "" {
		require.NotEmpty(t, r.Token)
		go func() { ended <- forgetest.RunnerWithToken(ctx, r.URL, r.Token, name, labels) }()
		return ended
	}
	assert.NotZero(t, r.RunnerID)
	file := filepath.Join(t.TempDir(), "jitconfig")
	require.NoError(t, os.WriteFile(file, []byte(r.JITConfig+"\n"), 0o600))
	go func() { ended <- forgetest.Runner(ctx, file) }()
	return ended
}

func (w *world) status(t *testing.T, name string) forge.RunnerStatus {
	t.Helper()
	r, err := w.client.RunnerNamed(t.Context(), name)
	if err != nil {
		require.ErrorIs(t, err, forge.ErrNotFound)
		return ""
	}
	return r.Status
}

func eventually(t *testing.T, what func() bool, why string) {
	t.Helper()
	require.Eventually(t, what, time.Minute, 10*time.Millisecond, why)
}

// TestLife: a runner registers, is idle, takes a job, is not removed meanwhile, and is gone after it.
func TestLife(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ended := w.run(t, "one", "Linux", "x64")
		eventually(t, func() bool { return w.status(t, "one") == forge.Idle }, "idle")
		w.work.hold.Lock()
		job := w.Queue(forgetest.Work{Labels: []string{"linux"}})[0]
		eventually(t, func() bool { return w.status(t, "one") == forge.Active }, "active")

		r, err := w.client.RunnerNamed(t.Context(), "one")
		require.NoError(t, err)
		assert.Equal(t, []string{"Linux", "x64"}, r.Labels)
		require.ErrorIs(t, w.client.RemoveRunner(t.Context(), r.ID), forge.ErrBusy)
		j, err := w.client.Job(t.Context(), "acme/shop", job)
		require.NoError(t, err)
		assert.Equal(t, forge.InProgress, j.State)
		assert.Equal(t, "one", j.RunnerName)
		assert.Equal(t, r.ID, j.RunnerID)

		w.work.hold.Unlock()
		require.NoError(t, <-ended)
		eventually(t, func() bool { return w.status(t, "one") == "" }, "gone")
		require.ErrorIs(t, w.client.RemoveRunner(t.Context(), r.ID), forge.ErrNotFound)
		j, err = w.client.Job(t.Context(), "acme/shop", job)
		require.NoError(t, err)
		assert.Equal(t, forge.Completed, j.State)
		assert.Equal(t, "success", j.Conclusion)
		assert.Empty(t, w.Judge().RemovedBusy)
		assert.Empty(t, w.Judge().KilledBusy)
	})
}

func TestRemoveIdle(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ended := w.run(t, "one", "linux")
		eventually(t, func() bool { return w.status(t, "one") == forge.Idle }, "idle")
		r, err := w.client.RunnerNamed(t.Context(), "one")
		require.NoError(t, err)
		require.NoError(t, w.client.RemoveRunner(t.Context(), r.ID))
		require.ErrorContains(t, <-ended, "let go")
		w.Queue(forgetest.Work{Labels: []string{"linux"}})
		assert.Equal(t, forge.Queued, w.Records()[0].State)
	})
}

func TestRunners_pages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		for i := range 250 {
			w.AddRunner(w.root(), fmt.Sprintf("r%03d", i), "linux")
		}
		all, err := w.client.Runners(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 250)
		assert.Equal(t, "r249", all[249].Name)
		assert.Equal(t, forge.Offline, all[0].Status)
		r, err := w.client.RunnerNamed(t.Context(), "r201")
		require.NoError(t, err)
		assert.Equal(t, "r201", r.Name)
	})
}

// TestRunners_going: nobody who is there all the time is missed, however many others go while the pages are read.
func TestRunners_going(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Organization, forgetest.Options{})
			var going []int64
			staying := 0
			for i := range 400 {
				if i%2 == 0 {
					going = append(going, w.AddRunner("orgs/acme", fmt.Sprintf("go%d", i), "x"))
					continue
				}
				w.AddRunner("orgs/acme", fmt.Sprintf("stay%d", i), "x")
				staying++
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				for i, id := range going {
					for asked := w.Requests(""); i%50 == 49 && w.Requests("") == asked && i < 150; { // until the next page
						if t.Context().Err() != nil {
							return
						}
					}
					w.RemoveRunner(id)
				}
			}()
			all, err := w.client.Runners(t.Context())
			require.NoError(t, err)
			n := 0
			for _, r := range all {
				if r.Name[:2] == "st" {
					n++
				}
			}
			assert.Equal(t, staying, n)
			_, err = w.client.Runners(t.Context()) // lets the loop above end
			require.NoError(t, err)
			_, err = w.client.Runners(t.Context())
			require.NoError(t, err)
			<-gone
		})
	}
}

func TestOpenJobs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ended := w.run(t, "one", "linux")
		eventually(t, func() bool { return w.Idle() == 1 }, "idle")
		var want []int64
		for range 130 {
			want = append(want, w.Queue(forgetest.Work{Labels: []string{"linux"}, For: time.Hour})...)
		}
		other := w.Queue(forgetest.Work{Repository: "acme/other", Labels: []string{"nobody"}})[0]
		w.Cancel(w.Queue(forgetest.Work{Labels: []string{"nobody"}})[0])
		if w.scope != forge.Repository {
			want = append(want, other)
		}
		open, err := w.client.OpenJobs(t.Context(), []string{"acme/shop", "acme/other"})
		require.NoError(t, err)
		var got []int64
		for _, j := range open {
			got = append(got, j.ID)
			if j.ID == want[0] {
				assert.Equal(t, forge.InProgress, j.State)
				continue
			}
			assert.Equal(t, forge.Queued, j.State)
			assert.Equal(t, 1, j.Attempt)
		}
		slices.Sort(got)
		assert.Equal(t, want, got)
		select {
		case err := <-ended:
			require.NoError(t, err)
		default:
		}
	})
}

// TestAgain: a job that is run again is another attempt, of Gitea too.
func TestAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t, kind, forge.Repository, forgetest.Options{})
			ended := w.run(t, "one", "linux")
			eventually(t, func() bool { return w.Idle() == 1 }, "idle")
			id := w.Queue(forgetest.Work{Labels: []string{"linux"}})[0]
			require.NoError(t, <-ended)
			j, err := w.client.Job(t.Context(), "acme/shop", id)
			require.NoError(t, err)
			assert.Equal(t, 1, j.Attempt)
			w.Again(id)
			j, err = w.client.Job(t.Context(), "acme/shop", id)
			require.NoError(t, err)
			assert.Equal(t, 2, j.Attempt)
			assert.Equal(t, forge.Queued, j.State)
		})
	}
}

// heard is what a webhook's receiver got.
type heard struct {
	mu   sync.Mutex
	ids  []string
	jobs []*forge.Job
	all  int
}

// receiver checks the signature of what comes, and reads it.
func (w *world) receiver(t *testing.T, secret string) (*heard, string) {
	t.Helper()
	h := &heard{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if !assert.NoError(t, err) {
			return
		}
		d, err := w.kind.Delivery(r.Header)
		assert.NoError(t, err)
		assert.Equal(t, forgetest.Sign(secret, body), fmt.Sprintf("%x", d.Signature))
		j, err := w.kind.Job(d.Event, body)
		assert.NoError(t, err)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all++
		if !slices.Contains(h.ids, d.ID) {
			h.ids = append(h.ids, d.ID)
			if j != nil {
				h.jobs = append(h.jobs, j)
			}
		}
		rw.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	return h, server.URL
}

func (h *heard) states(id int64) []forge.JobState {
	h.mu.Lock()
	defer h.mu.Unlock()
	var states []forge.JobState
	for _, j := range h.jobs {
		if j.ID == id {
			states = append(states, j.State)
		}
	}
	slices.Sort(states)
	return states
}

func TestHooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		h, url := w.receiver(t, "the secret of the webhook")
		hook, err := w.client.InstallHook(ctx, url, "the secret of the webhook", 0)
		if w.scope == forge.Enterprise && !w.gitea {
			require.ErrorIs(t, err, forge.ErrUnsupported)
			return
		}
		require.NoError(t, err)
		again, err := w.client.InstallHook(ctx, url, "the secret of the webhook", hook.ID)
		require.NoError(t, err)
		assert.Equal(t, w.gitea, hook.ID != again.ID, "Gitea changes no secret")
		if w.gitea {
			require.NoError(t, w.client.RemoveHook(ctx, hook.ID))
			hook = again
		}
		there, err := w.client.Hooks(ctx, url)
		require.NoError(t, err)
		require.Equal(t, []forge.Hook{hook}, there)
		none, err := w.client.Hooks(ctx, url+"/of-another")
		require.NoError(t, err)
		require.Empty(t, none)
		shown, err := w.client.Hook(ctx, hook.ID)
		require.NoError(t, err)
		assert.Equal(t, forge.Hook{ID: hook.ID, URL: url, Events: []string{"workflow_job"}, Active: true}, shown)

		err = w.client.PingHook(ctx, hook.ID)
		if w.gitea && w.scope != forge.Repository {
			require.ErrorIs(t, err, forge.ErrUnsupported)
		} else {
			require.NoError(t, err)
			eventually(t, func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.all == 1 }, "pinged")
		}
		job := w.Queue(forgetest.Work{Labels: []string{"linux"}})[0]
		w.run(t, "one", "linux")
		want := []forge.JobState{forge.Completed, forge.InProgress, forge.Queued}
		eventually(t, func() bool { return slices.Equal(h.states(job), want) }, "told of the job")

		require.NoError(t, w.client.RemoveHook(ctx, hook.ID))
		_, err = w.client.Hook(ctx, hook.ID)
		require.ErrorIs(t, err, forge.ErrNotFound)
		require.ErrorIs(t, w.client.RemoveHook(ctx, hook.ID), forge.ErrNotFound)
		_, err = w.client.InstallHook(ctx, url, "", 0)
		require.ErrorContains(t, err, "without a secret")
	})
}

// TestDeliveries: what was lost is found, by its id, with its body.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	w := start(t, "github", forge.Organization, forgetest.Options{Faults: forgetest.Faults{Lose: 0.5, Repeat: 0.3}, Seed: 7})
	h, url := w.receiver(t, "the secret of the webhook")
	hook, err := w.client.InstallHook(t.Context(), url, "the secret of the webhook", 0)
	require.NoError(t, err)
	for range 150 {
		w.Queue(forgetest.Work{Labels: []string{"linux"}})
	}
	var sent []forge.Sent
	eventually(t, func() bool {
		sent, err = w.client.Deliveries(t.Context(), hook.ID, time.Time{})
		require.NoError(t, err)
		made, _ := w.Deliveries()
		h.mu.Lock()
		defer h.mu.Unlock()
		well := 0
		for _, s := range sent {
			if s.OK {
				well++
			}
		}
		return made == 150 && len(sent) == 150 && well == len(h.ids) && h.all > well
	}, "all deliveries are listed")
	lost := slices.IndexFunc(sent, func(s forge.Sent) bool { return !s.OK })
	require.GreaterOrEqual(t, lost, 0)
	assert.NotContains(t, h.ids, sent[lost].GUID)
	body, err := w.client.DeliveryBody(t.Context(), hook.ID, sent[lost].ID)
	require.NoError(t, err)
	j, err := w.kind.Job(sent[lost].Event, body)
	require.NoError(t, err)
	assert.Equal(t, forge.Queued, j.State)
	some, err := w.client.Deliveries(t.Context(), hook.ID, sent[20].At)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(some), 21)
	assert.Less(t, len(some), 150, "only those since then")

	g := start(t, "gitea", forge.Organization, forgetest.Options{})
	_, err = g.client.Deliveries(t.Context(), 1, time.Time{})
	require.ErrorIs(t, err, forge.ErrUnsupported)
}
