package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/seal"
)

// hookForge is a kind of forge that has webhooks and runners, and notes how it was connected to. Other calls panic.
type hookForge struct {
	forge.Forge
	mu         sync.Mutex
	connection forge.Connection
	secret     string
	err        error
}

// hookKind connects to one.
type hookKind struct {
	forge.Kind
	*hookForge
}

func (k hookKind) Connect(c forge.Connection) (forge.Forge, error) { return k.hookForge.connect(c) }

func (k hookKind) Job(event string, body []byte) (*forge.Job, error) { return k.Kind.Job(event, body) }

func (f *hookForge) connect(c forge.Connection) (forge.Forge, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connection = c
	return f, nil
}

func (f *hookForge) Runners(context.Context) ([]forge.Runner, error)     { return nil, f.err }
func (f *hookForge) Hooks(context.Context, string) ([]forge.Hook, error) { return nil, f.err }
func (f *hookForge) Rate() forge.Rate                                    { return forge.Rate{Limit: 5000, Remaining: 12} }
func (f *hookForge) PingHook(context.Context, int64) error               { return f.err }
func (f *hookForge) RemoveHook(context.Context, int64) error             { return f.err }

func (f *hookForge) Deliveries(context.Context, int64, time.Time) ([]forge.Sent, error) {
	return nil, forge.ErrUnsupported
}

func (f *hookForge) Hook(_ context.Context, id int64) (forge.Hook, error) {
	return forge.Hook{ID: id, URL: "u", Active: true}, f.err
}

func (f *hookForge) InstallHook(_ context.Context, url, secret string, _ int64) (forge.Hook, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secret = secret
	return forge.Hook{ID: 7, URL: url, Events: []string{"workflow_job"}}, f.err
}

// lockedBuffer is a log that is written by several.
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

// Credentials and entities over HTTP: each change on the record, refused where it must be, and no secret in any answer, row,
// entry of the audit log, or line of the log.
func TestForges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log := &lockedBuffer{}
	w := newWorldLogging(t, slog.Make(sloghuman.Sink(log)).Leveled(slog.LevelDebug))
	fake := &hookForge{}
	kinds := map[string]forge.Kind{"github": hookKind{hookForge: fake}}
	path := filepath.Join(t.TempDir(), "keys")
	keys := seal.Open(path, true, quartz.NewReal())
	service := &entities.Service{
		Store: w.store, Keys: keys, Directory: entities.NewDirectory(w.store, keys, kinds, quartz.NewReal()),
	}
	w.url = w.serve(api.Options{Forges: service, Log: slog.Make(sloghuman.Sink(log)), AccessURL: "https://prewarm.example"})
	admin, owner := w.as("admin"), w.as("owner")
	start, err := owner.Audit(ctx, sdk.AuditFilter{Limit: 1})
	require.NoError(t, err)

	const token, token2, secret = "ghp_theTokenItself", "ghp_theOtherToken", "a-secret-of-webhooks"
	refused := func(status int, says string, err error) {
		t.Helper()
		require.ErrorContains(t, err, says)
		require.Equal(t, status, sdk.StatusOf(err), err)
	}
	// Credentials.
	bundle := "nonsense"
	for says, bad := range map[string]sdk.PutForgeCredential{
		"say kind": {Token: token}, "a token is missing": {Kind: "github"}, "must begin with https": {Kind: "gitea", Token: token, URL: "http://gitea.example"},
		"url is missing": {Kind: "gitea", Token: token}, "not both": {Kind: "github", Token: token, AppID: 1},
		"not PEM":       {Kind: "github", AppID: 1, InstallationID: 2, PrivateKey: "x"},
		"is not PEM":    {Kind: "github", Token: token, CABundle: &bundle},
		"needs app_id":  {Kind: "github", AppID: 1, PrivateKey: "x"},
		"GitHub has Ap": {Kind: "gitea", URL: "https://x", AppID: 1, InstallationID: 2, PrivateKey: "x"},
	} {
		_, err := admin.PutForgeCredential(ctx, "acme", bad)
		refused(http.StatusUnprocessableEntity, says, err)
	}
	made, err := admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", Token: token})
	require.NoError(t, err)
	require.Equal(t, "https://api.github.com", made.URL)
	_, err = admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{URL: "https://evil.example"})
	refused(http.StatusUnprocessableEntity, "give the token or private key again", err)
	_, err = admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "gitea", Token: token})
	refused(http.StatusConflict, "cannot change", err)

	// Entities.
	_, err = admin.PutForge(ctx, "credentials", sdk.PutForgeEntity{Scope: "organization", Path: "a", Credential: "acme"})
	refused(http.StatusUnprocessableEntity, "means something else", err)
	_, err = admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Scope: "repository", Path: "acme", Credential: "acme"})
	refused(http.StatusUnprocessableEntity, "acme/shop", err)
	_, err = admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "none"})
	refused(http.StatusUnprocessableEntity, `no credential "none"`, err)
	saved, err := admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Scope: "repository", Path: "acme/shop", Credential: "acme"})
	require.NoError(t, err)
	require.Len(t, saved.WebhookSecret, 64, "made by chance, and told once")
	require.Equal(t, "https://prewarm.example/webhooks/shop", saved.WebhookURL)
	again, err := admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Balance: "spread"})
	require.NoError(t, err)
	require.Empty(t, again.WebhookSecret)
	require.Equal(t, "spread", again.Balance)
	_, err = admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Path: "acme/other"})
	refused(http.StatusConflict, "cannot change", err)
	_, err = admin.PutForge(ctx, "other", sdk.PutForgeEntity{Scope: "organization", Path: "acme", Credential: "acne"})
	refused(http.StatusUnprocessableEntity, `there is no credential "acne" (did you mean "acme"?)`, err)
	refused(http.StatusNotFound, `there is no credential "acne" (did you mean "acme"?)`, admin.DeleteForgeCredential(ctx, "acne"))
	_, err = admin.Forge(ctx, "shpo")
	refused(http.StatusNotFound, `there is no forge "shpo" (did you mean "shop"?)`, err)
	_, err = admin.RotateForgeSecret(ctx, "shpo", sdk.RotateForgeSecret{})
	refused(http.StatusNotFound, `did you mean "shop"?`, err)
	refused(http.StatusNotFound, `did you mean "shop"?`, admin.DeleteForge(ctx, "shpo"))
	refused(http.StatusConflict, "in use by forge shop", admin.DeleteForgeCredential(ctx, "acme"))

	// The webhook.
	_, err = admin.ForgeHook(ctx, "shop")
	refused(http.StatusConflict, "installed no webhook", err)
	fake.err = forge.ErrUnsupported
	_, err = admin.InstallForgeHook(ctx, "shop")
	refused(http.StatusConflict, "https://prewarm.example/webhooks/shop, content type application/json", err)
	fake.err = nil
	hook, err := admin.InstallForgeHook(ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, "https://prewarm.example/webhooks/shop", hook.URL)
	require.Equal(t, saved.WebhookSecret, fake.secret)
	require.Equal(t, token, fake.connection.Token)
	require.NoError(t, admin.PingForgeHook(ctx, "shop"))
	rotated, err := admin.RotateForgeSecret(ctx, "shop", sdk.RotateForgeSecret{WebhookSecret: secret, OverlapS: 60})
	require.NoError(t, err)
	require.Empty(t, rotated.WebhookSecret)
	require.Empty(t, rotated.HookError)
	require.NotNil(t, rotated.SecretOverlap)
	require.Equal(t, secret, fake.secret, "the webhook is told")
	entity, err := service.Directory.ByName(ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, []string{secret, saved.WebhookSecret}, entity.Secrets)
	check, err := admin.CheckForge(ctx, "shop")
	require.NoError(t, err)
	require.True(t, check.OK, check)
	fake.err = forge.ErrRefused
	check, err = admin.CheckForge(ctx, "shop")
	require.NoError(t, err)
	require.False(t, check.OK)
	require.Contains(t, check.Steps[0].Detail, "Administration")
	_, err = admin.InstallForgeHook(ctx, "shop")
	refused(http.StatusBadGateway, "the forge refuses the credential", err)
	fake.err = forge.ErrUnsupported
	refused(http.StatusConflict, "the forge has no API for that", admin.PingForgeHook(ctx, "shop"))
	fake.err = &forge.RateLimited{Until: time.Now().Add(time.Hour)}
	a := w.call(w.token["admin"], http.MethodPost, "/api/v1/forges/shop/webhook", "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.header.Get("Retry-After"), "35")
	fake.err = nil

	// Another replica sees a change within a second.
	other := entities.NewDirectory(w.store, seal.Open(path, false, quartz.NewReal()), kinds, quartz.NewReal())
	client, err := other.Forge(ctx, entity.ID)
	require.NoError(t, err)
	require.NotNil(t, client)
	_, err = admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Token: token2})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := other.Forge(ctx, entity.ID)
		return err == nil && fake.connection.Token == token2
	}, eventually, poll)
	stopped, err := admin.StopForge(ctx, "shop", sdk.StopForgeEntity{Reason: "maintenance", Drain: true})
	require.NoError(t, err)
	require.True(t, stopped.Draining)
	stopped, err = admin.StopForge(ctx, "shop", sdk.StopForgeEntity{Reason: "maintenance"})
	require.NoError(t, err)
	require.False(t, stopped.Draining, "the last word holds")
	require.Eventually(t, func() bool { e, err := other.ByID(ctx, entity.ID); return err == nil && e.Stopped }, eventually, poll)
	started, err := admin.StartForge(ctx, "shop")
	require.NoError(t, err)
	require.True(t, started.Status.Running)

	// Another encryption key; a replica without it says so, of that entity only.
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	next := "next:" + strings.Repeat("QUFB", 10) + "QUE=\n"
	require.NoError(t, os.WriteFile(path, append([]byte(next), content...), 0o600))
	require.Eventually(t, func() bool { current, err := keys.Current(); return err == nil && current == "next" }, eventually, poll)
	_, err = admin.ResealForges(ctx)
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
	resealed, err := owner.ResealForges(ctx)
	require.NoError(t, err)
	require.Equal(t, sdk.Resealed{SealedBy: "next", Credentials: 1, Entities: 1}, resealed)
	lacking := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(lacking, content, 0o600))
	without := entities.NewDirectory(w.store, seal.Open(lacking, false, quartz.NewReal()), kinds, quartz.NewReal())
	_, err = without.Forge(ctx, entity.ID)
	require.ErrorContains(t, err, `encryption key "next" is not in `+lacking)
	e, err := without.ByName(ctx, "shop")
	require.NoError(t, err)
	require.Empty(t, e.Secrets)
	require.ErrorContains(t, e.Err, `encryption key "next"`)
	_, err = without.ByName(ctx, "none")
	require.ErrorIs(t, err, entities.ErrNoEntity)
	lackingURL := w.serve(api.Options{Forges: &entities.Service{
		Store: w.store, Keys: seal.Open(lacking, false, quartz.NewReal()), Directory: without,
	}})
	elsewhere, err := sdk.New(lackingURL, w.token["admin"])
	require.NoError(t, err)
	seen, err := elsewhere.Forges(ctx)
	require.NoError(t, err)
	require.False(t, seen[0].Status.Running)
	require.Contains(t, seen[0].Status.Error, `open webhook secret of shop: encryption key "next" is not in `+lacking)

	require.NoError(t, admin.RemoveForgeHook(ctx, "shop"))
	_, err = w.store.Pool.Exec(ctx, `UPDATE presets SET forge_entity_id = $1, runner_labels = '{x}' WHERE template_id =
		(SELECT id FROM templates WHERE name = 'plain')`, entity.ID)
	require.NoError(t, err)
	refused(http.StatusConflict, "named by preset plain/default", admin.DeleteForge(ctx, "shop"))
	_, err = w.store.Pool.Exec(ctx, "UPDATE presets SET forge_entity_id = NULL, runner_labels = '{}'")
	require.NoError(t, err)
	appKey := privateKey(t)
	_, err = admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{AppID: 1, InstallationID: 2, PrivateKey: appKey})
	require.NoError(t, err)
	all := w.dump() + w.call(w.token["owner"], http.MethodGet, "/api/v1/audit?limit=500", "").body +
		w.call(w.token["owner"], http.MethodGet, "/api/v1/forges", "").body +
		w.call(w.token["owner"], http.MethodGet, "/api/v1/forges/credentials", "").body + log.String() + w.forgeRows()
	for _, hidden := range []string{token, token2, secret, saved.WebhookSecret, strings.Split(appKey, "\n")[1]} {
		require.NotContains(t, all, hidden)
	}
	require.NoError(t, admin.DeleteForge(ctx, "shop"))
	require.NoError(t, admin.DeleteForgeCredential(ctx, "acme"))
	refused(http.StatusNotFound, "there is no credential", admin.DeleteForgeCredential(ctx, "acme"))

	page, err := owner.Audit(ctx, sdk.AuditFilter{Limit: 500})
	require.NoError(t, err)
	var got []string
	for _, entry := range page.Entries {
		if entry.ID > start.Entries[0].ID {
			got = append(got, entry.Action)
		}
	}
	slices.Reverse(got)
	require.Equal(t, []string{
		"forge-credential.create", "forge.create", "forge.update", "forge.install-hook", "forge.ping-hook", "forge.update",
		"forge.install-hook", "forge.check", "forge.check", "forge-credential.update", "forge.stop", "forge.stop", "forge.start",
		"forge.reseal", "forge.remove-hook", "forge-credential.update", "forge.delete", "forge-credential.delete",
	}, got)
}

// forgeRows is what the database has of forges, as text and as bytes.
func (w *world) forgeRows() string {
	w.t.Helper()
	var rows string
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(), `
		SELECT coalesce(string_agg(c::text || encode(c.secret, 'escape'), ''), '') ||
		  (SELECT coalesce(string_agg(e::text || encode(e.webhook_secret, 'escape'), ''), '') FROM forge_entities e)
		FROM forge_credentials c`).Scan(&rows))
	return rows
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// Jobs and runners are listed newest first, page by page, with why a job is not served.
func TestForgeJobs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	admin := w.as("admin")
	_, err := admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: "github", Token: "t"})
	require.NoError(t, err)
	shop, err := admin.PutForge(ctx, "shop", sdk.PutForgeEntity{Scope: "repository", Path: "acme/shop", Credential: "acme"})
	require.NoError(t, err)
	runner := w.workspace("quickstart", "claimed", "admin")
	_, err = w.store.Pool.Exec(ctx, `
		INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since, created_at)
		SELECT w.id, w.incarnation, w.preset_id, $1, w.name, 'active', now(), now(), now() FROM workspaces w WHERE w.id = $2`, shop.ID, runner.ID)
	require.NoError(t, err)
	_, err = w.store.Pool.Exec(ctx, `
		INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, unserved,
		  queued_at, started_at, workspace_id, incarnation, runner_name, seen_at, updated_at)
		SELECT gen_random_uuid(), $1, 'u', n, 1, $2, 'acme/shop', '{linux}', CASE n WHEN 1 THEN 'in_progress' ELSE 'queued' END::forge_job_state,
		  CASE n WHEN 2 THEN 'no preset has label linux' ELSE '' END, now() - n * interval '1 minute', CASE n WHEN 1 THEN now() END,
		  CASE n WHEN 1 THEN $3::uuid END, CASE n WHEN 1 THEN $4::int END, '', now(), now()
		FROM generate_series(1, 3) n`, w.owner.OrganizationID, shop.ID, runner.ID, runner.Incarnation)
	require.NoError(t, err)

	first, err := admin.ForgeJobs(ctx, sdk.ForgeJobFilter{Limit: 2, Forge: "shop"})
	require.NoError(t, err)
	require.Equal(t, sdk.ForgeJobCounts{Queued: 2, Unserved: 1, InProgress: 1}, first.Counts)
	require.Equal(t, []int64{1, 2}, []int64{first.Jobs[0].JobID, first.Jobs[1].JobID})
	require.Equal(t, "quickstart", first.Jobs[0].Template)
	require.Equal(t, "no preset has label linux", first.Jobs[1].Unserved)
	require.InDelta(t, 60, first.Jobs[0].WaitS, 5)
	second, err := admin.ForgeJobs(ctx, sdk.ForgeJobFilter{Limit: 2, After: first.Next})
	require.NoError(t, err)
	require.Len(t, second.Jobs, 1)
	require.Empty(t, second.Next)
	for n, filter := range map[*sdk.ForgeJobFilter]int{
		{Unserved: true}: 1, {State: "queued"}: 2, {Template: "quickstart", Preset: "default"}: 1, {Template: "plain"}: 0,
	} {
		list, err := admin.ForgeJobs(ctx, *n)
		require.NoError(t, err)
		require.Len(t, list.Jobs, filter, *n)
	}
	_, err = admin.ForgeJobs(ctx, sdk.ForgeJobFilter{Forge: "shpo"})
	require.ErrorContains(t, err, `there is no forge "shpo"`)
	shown, err := admin.ForgeJob(ctx, "2")
	require.NoError(t, err)
	require.Equal(t, first.Jobs[1].ID, shown[0].ID)

	// P8: while the forge of its preset is left alone, a job that waits says so, with the instant and the forge's error.
	_, err = w.store.Pool.Exec(ctx, `UPDATE forge_jobs SET preset_id = p.id FROM presets p JOIN templates t ON t.id = p.template_id
		WHERE t.name = 'quickstart' AND p.name = 'default' AND job_id IN (1, 3)`)
	require.NoError(t, err)
	_, err = w.store.Pool.Exec(ctx, "UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux}' WHERE name = 'default'", shop.ID)
	require.NoError(t, err)
	until := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
	delay := func(until time.Time, job string) *sdk.JobDelay {
		_, err = w.store.Pool.Exec(ctx, "UPDATE forge_status SET runners_wait_until = $1, runners_error = 'status 502: Bad Gateway'", until)
		require.NoError(t, err)
		shown, err := admin.ForgeJob(ctx, job)
		require.NoError(t, err)
		return shown[0].Delay
	}
	waits := delay(until, "3")
	require.NotNil(t, waits)
	require.Equal(t, "forge_left_alone", waits.Code)
	require.True(t, until.Equal(waits.Until))
	require.Equal(t, "no runner registers before "+until.Format(time.RFC3339)+", since the forge is not well: status 502: Bad Gateway", waits.Text)
	require.Nil(t, delay(until, "1"), "it has a runner")
	require.Nil(t, delay(until, "2"), "no preset is to serve it")
	f, err := admin.Forge(ctx, "shop")
	require.NoError(t, err)
	require.Equal(t, "status 502: Bad Gateway", f.Status.RunnersError)
	require.True(t, until.Equal(*f.Status.RunnersWaitUntil))
	require.Nil(t, delay(until.Add(-2*time.Minute), "3"), "it is over")
	_, err = admin.ForgeJob(ctx, uuid.NewString())
	require.Equal(t, http.StatusNotFound, sdk.StatusOf(err))

	runners, err := admin.Runners(ctx, sdk.RunnerFilter{Forge: "shop", Status: "active"})
	require.NoError(t, err)
	require.Len(t, runners.Runners, 1)
	require.Equal(t, int64(1), runners.Runners[0].Job.JobID)
	one, err := admin.Runner(ctx, runner.Name)
	require.NoError(t, err)
	require.Equal(t, runner.ID, one.WorkspaceID)
	forges, err := admin.Forges(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 1, 1}, []int{forges[0].Queued, forges[0].Unserved, forges[0].InProgress, forges[0].Runners})
	_, err = w.as("member").Forges(ctx)
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err))
}
