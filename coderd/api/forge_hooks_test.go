package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/seal"
)

// P6: webhooks for the same URL that a person made are shown and left alone, until somebody has them taken over: then there is one,
// which is ours, with the entity's secret and the right event, and that is in the audit log.
func TestForgeHook_takeOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newWorld(t)
			there, err := forgetest.Start(t.Context(), forgetest.Options{Gitea: kind == "gitea", Token: "t"})
			require.NoError(t, err)
			t.Cleanup(there.Close)
			const secret = "the secret of the entity"
			told := make(chan bool, 8) // whether it was signed by that secret
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				want := strings.TrimPrefix(signedWith(secret, string(body)), "sha256=")
				said := r.Header.Get("X-Hub-Signature-256") + r.Header.Get("X-Gitea-Signature")
				told <- err == nil && strings.Contains(said, want)
			}))
			t.Cleanup(receiver.Close)
			keys := seal.Open(filepath.Join(t.TempDir(), "keys"), true, quartz.NewReal())
			kinds := map[string]forge.Kind{"github": github.Kind, "gitea": gitea.Kind}
			w.url = w.serve(api.Options{AccessURL: receiver.URL, Forges: &entities.Service{
				Store: w.store, Keys: keys, Directory: entities.NewDirectory(w.store, keys, kinds, quartz.NewReal()),
			}})
			admin := w.as("admin")
			_, err = admin.PutForgeCredential(ctx, "acme", sdk.PutForgeCredential{Kind: kind, URL: there.API, Token: "t"})
			require.NoError(t, err)
			entity, err := admin.PutForge(ctx, "shop", sdk.PutForgeEntity{
				Scope: "repository", Path: "acme/shop", Credential: "acme", WebhookSecret: secret,
			})
			require.NoError(t, err)
			base := there.API
			if kind == "gitea" {
				base += "/api/v1"
			}
			byHand := func() {
				body, err := json.Marshal(map[string]any{
					"name": "web", "type": "gitea", "events": []string{"push"}, "active": true,
					"config": map[string]string{"url": entity.WebhookURL, "content_type": "json", "secret": "a person's"},
				})
				require.NoError(t, err)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/repos/acme/shop/hooks", bytes.NewReader(body))
				require.NoError(t, err)
				req.Header.Set("Authorization", "token t")
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http.StatusCreated, resp.StatusCode)
			}
			byHand()
			byHand()

			shown, err := admin.ForgeHook(ctx, "shop")
			require.NoError(t, err)
			require.False(t, shown.Ours)
			require.Equal(t, []string{"push"}, shown.Events)
			require.Len(t, shown.Others, 1)
			check, err := admin.CheckForge(ctx, "shop")
			require.NoError(t, err)
			require.Contains(t, check.Steps[1].Detail, "was made by a person")
			_, err = admin.InstallForgeHook(ctx, "shop")
			require.Equal(t, http.StatusConflict, sdk.StatusOf(err), err)
			require.ErrorContains(t, err, "--take-over")
			again, err := admin.ForgeHook(ctx, "shop")
			require.NoError(t, err)
			require.Equal(t, shown, again, "nothing was done to it")

			only := func() {
				t.Helper()
				taken, err := admin.TakeOverForgeHook(ctx, "shop")
				require.NoError(t, err)
				require.True(t, taken.Ours)
				shown, err := admin.ForgeHook(ctx, "shop")
				require.NoError(t, err)
				shown.LastStatus = ""
				require.Equal(t, sdk.ForgeHook{
					ID: taken.ID, URL: entity.WebhookURL, Events: []string{"workflow_job"}, Active: true, Ours: true,
				}, shown, "there is one, and no second")
				f, err := admin.Forge(ctx, "shop")
				require.NoError(t, err)
				require.Equal(t, taken.ID, f.HookID)
				there.Queue(forgetest.Work{Repository: "acme/shop", Labels: []string{"linux"}})
				require.True(t, <-told, "it has the entity's secret")
			}
			only()
			byHand() // and beside ours
			_, err = admin.InstallForgeHook(ctx, "shop")
			require.Equal(t, http.StatusConflict, sdk.StatusOf(err), err)
			only()
			_, err = admin.InstallForgeHook(ctx, "shop")
			require.NoError(t, err, "ours alone is brought up to date")

			audit, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Action: "forge.take-over-hook"})
			require.NoError(t, err)
			require.Len(t, audit.Entries, 2)
			require.Equal(t, "shop", audit.Entries[0].TargetName)
		})
	}
}
