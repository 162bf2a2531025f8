package api_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/database/inboxdb"
)

// fewEntities are those of a test.
type fewEntities struct {
	mu   sync.Mutex
	list map[string]inbox.Entity
}

func (f *fewEntities) ByName(_ context.Context, name string) (inbox.Entity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.list[name]; ok {
		if name == "sealed" {
			return e, xerrors.Errorf("open webhook secret of sealed: encryption key \"k9\" is not in /data/keys: %w", inbox.ErrSealed)
		}
		return e, nil
	}
	return inbox.Entity{}, inbox.ErrNoEntity
}

func (f *fewEntities) ByID(ctx context.Context, id uuid.UUID) (inbox.Entity, error) {
	for name, e := range f.list {
		if e.ID == id {
			return f.ByName(ctx, name)
		}
	}
	return inbox.Entity{}, inbox.ErrNoEntity
}

func (*fewEntities) Forge(context.Context, uuid.UUID) (forge.Forge, error) {
	return nil, forge.ErrUnsupported
}

// setSecrets is what a change of the webhook's secret does, and the end of its overlap.
func (f *fewEntities) setSecrets(name string, secrets ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.list[name]
	e.Secrets = secrets
	f.list[name] = e
}

const jobBody = `{"action":"queued","workflow_job":{"id":5,"run_attempt":1,"labels":["linux"]},"repository":{"full_name":"acme/shop"}}`

func signedWith(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

type webhookCase struct {
	name, method, entity, id, body, signature string
	header                                    map[string]string
	status                                    int
	chunked                                   bool
}

func (c webhookCase) send(t *testing.T, url string) (status int, answer string) {
	t.Helper()
	var body io.Reader = strings.NewReader(c.body)
	if c.chunked {
		body = struct{ io.Reader }{body} // whose length is not known before
	}
	req, err := http.NewRequestWithContext(t.Context(), c.method, url+"/webhooks/"+c.entity, body)
	require.NoError(t, err)
	req.Header.Set("X-GitHub-Event", "workflow_job")
	if c.id != "" {
		req.Header.Set("X-GitHub-Delivery", c.id)
	}
	if c.signature != "" {
		req.Header.Set("X-Hub-Signature-256", c.signature)
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

// serveInbox is a server that takes webhooks, for an entity acme, and one that has no secret at all.
func serveInbox(t *testing.T) (w *world, url string, entities *fewEntities, reg *prometheus.Registry) {
	t.Helper()
	w = newWorld(t)
	entities = &fewEntities{list: map[string]inbox.Entity{}}
	for name, secrets := range map[string][]string{"acme": {"the secret"}, "empty": {""}, "none": nil, "sealed": nil} {
		entities.list[name] = inbox.Entity{
			ID: uuid.New(), OrganizationID: auth.DefaultOrganizationID, Name: name, Kind: github.Kind, Secrets: secrets,
		}
	}
	reg = prometheus.NewRegistry()
	service := inbox.New(inbox.Options{
		Store: w.store, Clock: quartz.NewReal(), Log: slog.Make(), Registerer: reg, Replica: "test", NewID: uuid.New,
		Directory: entities, Hints: hints.Local(hints.Ears{}),
	})
	return w, w.serve(api.Options{Webhooks: service}), entities, reg
}

// What a webhook may be that it should not be: each is refused as it should be, and nothing is stored.
func TestWebhook_badInput(t *testing.T) {
	t.Parallel()
	w, url, _, reg := serveInbox(t)
	good := signedWith("the secret", jobBody)
	large := `{"a":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, c := range []webhookCase{
		{name: "wrong signature", signature: signedWith("another secret", jobBody), status: 401},
		{name: "missing signature", status: 401},
		{name: "a signature that is none", signature: "sha256=zz", status: 401},
		{name: "an empty signature", signature: "sha256=", status: 401},
		{name: "half a signature", signature: good[:40], status: 401},
		{name: "SHA-1 only", header: map[string]string{"X-Hub-Signature": "sha1=" + strings.Repeat("0", 40)}, status: 401},
		{name: "the signature of another body", signature: signedWith("the secret", jobBody+" "), status: 401},
		{name: "an empty secret", entity: "empty", signature: signedWith("", jobBody), status: 401},
		{name: "no secret", entity: "none", signature: signedWith("", jobBody), status: 401},
		{name: "2 MB", body: large, signature: signedWith("the secret", large), status: 413},
		{name: "2 MB in pieces", body: large, signature: signedWith("the secret", large), chunked: true, status: 413},
		{name: "unknown entity", entity: "nobody", signature: good, status: 404},
		{name: "the name of an entity and more", entity: "acme/x", signature: good, status: 404},
		{name: "malformed JSON", body: `{"action":`, signature: signedWith("the secret", `{"action":`), status: 400},
		{name: "no body", body: "-", signature: signedWith("the secret", "-"), status: 400},
		{name: "malformed JSON unsigned", body: `{"action":`, signature: "sha256=00", status: 401},
		{name: "GET", method: http.MethodGet, signature: good, status: 405},
		{name: "PUT", method: http.MethodPut, signature: good, status: 405},
		{name: "no delivery id", id: "-", signature: good, header: map[string]string{"X-GitHub-Delivery": ""}, status: 401},
		{name: "a delivery id of 201 characters", id: strings.Repeat("x", 201), signature: good, status: 401},
		{name: "a delivery id that is no text", id: "a\xffb", signature: good, status: 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			if c.entity == "" {
				c.entity = "acme"
			}
			if c.id == "" {
				c.id = "d-1"
			}
			if c.body == "" {
				c.body = jobBody
			}
			status, answer := c.send(t, url)
			require.Equal(t, c.status, status, answer)
			require.NotContains(t, answer, "the secret")
		})
	}
	require.Zero(t, w.rows("forge_deliveries")+w.rows("forge_jobs"), "nothing has changed")
	families, err := reg.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "prewarm_webhooks_total" {
				counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"large": 1, "malformed": 3, "unknown": 1, "unsigned": 12}, counted)
}

func (w *world) rows(table string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// A delivery is answered 202 whatever it is of; the same again changes nothing, also with another body.
func TestWebhook_replayed(t *testing.T) {
	t.Parallel()
	w, url, _, _ := serveInbox(t)
	send := func(id, event, body string) (int, string) {
		return webhookCase{
			method: http.MethodPost, entity: "acme", id: id, body: body, signature: signedWith("the secret", body),
			header: map[string]string{"X-GitHub-Event": event},
		}.send(t, url)
	}
	for _, c := range []struct{ id, event, body, outcome string }{
		{"d-1", "workflow_job", jobBody, "stored"},
		{"d-1", "workflow_job", jobBody, "repeated"},
		{"d-1", "workflow_job", strings.Replace(jobBody, "queued", "completed", 1), "repeated"},
		{"d-2", "ping", `{"zen":"Keep it simple."}`, "stored"},
		{"d-3", "push", `{}`, "stored"},
		{"d-4", "workflow_job", `{"action":"unheard of"}`, "stored"},
	} {
		status, answer := send(c.id, c.event, c.body)
		require.Equal(t, http.StatusAccepted, status, answer)
		require.JSONEq(t, `{"outcome":"`+c.outcome+`"}`, answer)
	}
	require.Equal(t, 4, w.rows("forge_deliveries"))
	var body []byte
	require.NoError(t, w.store.Pool.QueryRow(t.Context(), "SELECT body FROM forge_deliveries WHERE delivery_id = 'd-1'").Scan(&body))
	require.Equal(t, jobBody, string(body), "as it came") //nolint:testifylint // byte for byte
}

// The secret before is good while it overlaps, and not after.
func TestWebhook_secretsOverlap(t *testing.T) {
	t.Parallel()
	_, url, entities, _ := serveInbox(t)
	n := 0
	status := func(secret string) int {
		n++
		got, _ := webhookCase{
			method: http.MethodPost, entity: "acme", id: "d-" + strings.Repeat("x", n), body: jobBody, signature: signedWith(secret, jobBody),
		}.send(t, url)
		return got
	}
	for _, c := range []struct {
		good        []string
		old, recent int
	}{
		{[]string{"old"}, 202, 401},
		{[]string{"new", "old"}, 202, 202},
		{[]string{"new"}, 401, 202},
	} {
		entities.setSecrets("acme", c.good...)
		assert.Equal(t, []int{c.old, c.recent}, []int{status("old"), status("new")}, "%v", c.good)
	}
}

// Where the secret cannot be opened, the forge is to send the delivery again, and is not told why.
func TestWebhook_sealed(t *testing.T) {
	t.Parallel()
	w, url, _, _ := serveInbox(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/webhooks/sealed", strings.NewReader(jobBody))
	require.NoError(t, err)
	req.Header.Set("X-GitHub-Event", "workflow_job")
	req.Header.Set("X-GitHub-Delivery", "d-1")
	req.Header.Set("X-Hub-Signature-256", signedWith("the secret", jobBody))
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, string(answer))
	require.Equal(t, "60", res.Header.Get("Retry-After"))
	for _, word := range []string{"key", "secret", "k9", "/data"} {
		require.NotContains(t, string(answer), word)
	}
	require.Zero(t, w.rows("forge_deliveries"))
}

// A webhook is answered at once, whoever else is at the tables: it waits for no match and no merge.
func TestWebhook_waitsForNobody(t *testing.T) {
	t.Parallel()
	w, url, _, _ := serveInbox(t)
	tx, err := w.store.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	require.NoError(t, inboxdb.New(tx).LockForgeJobs(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/webhooks/acme", bytes.NewReader([]byte(jobBody)))
	require.NoError(t, err)
	req.Header.Set("X-GitHub-Event", "workflow_job")
	req.Header.Set("X-GitHub-Delivery", "d-1")
	req.Header.Set("X-Hub-Signature-256", signedWith("the secret", jobBody))
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusAccepted, res.StatusCode)
	require.Equal(t, 1, w.rows("forge_deliveries"))
}
