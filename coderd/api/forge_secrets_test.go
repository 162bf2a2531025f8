package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/seal"
)

// scan calls every operation of forges, and keeps whatever is said to anybody.
type scan struct {
	*world
	operations map[string]operation
	covered    map[string]bool
	said       strings.Builder
	statuses   map[int]int
}

// forgeRequests is every operation of forges, in an order in which all of them succeed where the forge does. The bodies of
// those that take secrets are the given ones.
func forgeRequests(credential, entity, rotation string) [][2]string {
	return [][2]string{
		{"put-forge-credential", credential},
		{"put-forge", entity},
		{"list-forge-credentials"},
		{"list-forges"},
		{"get-forge"},
		{"install-forge-hook"},
		{"ping-forge-hook"},
		{"get-forge-hook"},
		{"check-forge"},
		{"rotate-forge-secret", rotation},
		{"get-forge"},
		{"stop-forge", `{"reason":"x"}`},
		{"start-forge"},
		{"reseal-forges"},
		{"list-forge-jobs"},
		{"get-forge-job"},
		{"list-runners"},
		{"get-runner"},
		{"delete-forge-credential"},
		{"remove-forge-hook"},
	}
}

func (s *scan) all(requests [][2]string) {
	s.t.Helper()
	for _, r := range requests {
		s.one(r[0], r[1])
	}
}

func (s *scan) one(id, body string) answer {
	s.t.Helper()
	op, ok := s.operations[id]
	require.True(s.t, ok, id)
	path := strings.NewReplacer("{credential}", "acme", "{forge}", "shop", "{job}", "1", "{runner}", "r").Replace(op.path)
	a := s.call(s.token["owner"], op.method, "/api/v1"+strings.TrimPrefix(path, "/api/v1"), body)
	require.NotEqual(s.t, http.StatusInternalServerError, a.status, "%s: %s", id, a.body)
	_, _ = fmt.Fprintln(&s.said, id, body == "", a.status, a.header, a.body)
	s.covered[id] = true
	s.statuses[a.status/100]++
	return a
}

// No secret that was put in comes out: of no operation of forges, whether it succeeds, is refused, finds the forge in trouble
// or its key missing, is malformed; and neither in the audit log nor in the server's.
func TestForgeSecretsStayInside(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log := &lockedBuffer{}
	logger := slog.Make(sloghuman.Sink(log)).Leveled(slog.LevelDebug)
	w := newWorldLogging(t, logger)
	fake := &hookForge{}
	kinds := map[string]forge.Kind{"github": hookKind{hookForge: fake}}
	path := filepath.Join(t.TempDir(), "keys")
	options := func(path string) api.Options {
		keys := seal.Open(path, true, quartz.NewReal())
		return api.Options{
			Forges: &entities.Service{
				Store: w.store, Keys: keys, Directory: entities.NewDirectory(w.store, keys, kinds, quartz.NewReal()),
			},
			Log: logger, LogRequests: true, AccessURL: "https://prewarm.example",
		}
	}
	w.url = w.serve(options(path))
	s := &scan{world: w, operations: map[string]operation{}, covered: map[string]bool{}, statuses: map[int]int{}}
	for _, op := range operations(t) {
		s.operations[op.id] = op
	}
	const (
		token, first, second = "ghp_theTokenItself01", "the-first-of-secrets", "the-second-of-secrets"
		tiny, odd, password  = "tiny-secret-9", "not-a-key-at-all-9", "hunter-password-9"
	)
	appKey := privateKey(t)
	encoded := func(v any) string {
		raw, err := json.Marshal(v)
		require.NoError(t, err)
		return string(raw)
	}
	byToken := encoded(sdk.PutForgeCredential{Kind: "github", Token: token})
	entity := encoded(sdk.PutForgeEntity{
		Scope: "repository", Path: "acme/shop", Credential: "acme", WebhookSecret: first, Balance: "pack",
	})
	rotation := encoded(sdk.RotateForgeSecret{WebhookSecret: second, OverlapS: 60})

	s.all(forgeRequests(byToken, entity, rotation))
	require.Equal(t, token, fake.connection.Token, "it is used")
	byApp := encoded(sdk.PutForgeCredential{AppID: 1, InstallationID: 2, PrivateKey: appKey})
	s.all(forgeRequests(byApp, entity, rotation))
	require.Contains(t, string(fake.connection.App.PrivateKey), "PRIVATE KEY")
	for _, err := range []error{
		forge.ErrRefused, forge.ErrNotFound, forge.ErrUnsupported, &forge.RateLimited{Until: time.Now().Add(time.Hour)},
		errors.New("the forge hangs up"),
	} {
		s.one("install-forge-hook", "")
		fake.err = err
		s.all(forgeRequests(byToken, entity, rotation))
		fake.err = nil
	}

	// What people get wrong.
	for _, bad := range []string{
		`{"kind":"github","token":["` + token + `"]}`, `{"token":"` + token + `","secret":"` + first + `"}`,
		`{"token":"` + token, `{"token":"` + strings.Repeat(token, 300) + `"}`, `{"token":"` + token + `","app_id":1}`,
		`{"kind":"gitlab","token":"` + token + `"}`, `{"kind":"gitea","token":"` + token + `"}`, `["` + token + `"]`,
		encoded(sdk.PutForgeCredential{AppID: 1, InstallationID: 2, PrivateKey: odd}),
		encoded(sdk.PutForgeCredential{AppID: 1, InstallationID: 2, PrivateKey: appKey[:300]}),
		encoded(sdk.PutForgeCredential{AppID: -1, PrivateKey: appKey}), encoded(sdk.PutForgeCredential{Token: token, CABundle: &appKey}),
		encoded(sdk.PutForgeCredential{URL: "https://u:" + password + "@ghe.example", Token: token}),
	} {
		a := s.one("put-forge-credential", bad)
		require.Equal(t, 4, a.status/100, a.body)
	}
	for _, bad := range []string{
		`{"webhook_secret":"` + tiny + `"}`, `{"webhook_secret":["` + first + `"]}`, `{"webhook_secret":"` + first,
		`{"webhook_secret":"` + strings.Repeat(first, 100) + `"}`, `{"webhook_secrets":"` + first + `"}`,
		`{"webhook_secret":"` + first + `","overlap_s":-1}`, `"` + first + `"`,
	} {
		for _, id := range []string{"put-forge", "rotate-forge-secret"} {
			a := s.one(id, bad)
			require.Equal(t, 4, a.status/100, a.body)
		}
	}

	// What is made by chance is told this once.
	made := s.call(w.token["owner"], http.MethodPost, "/api/v1/forges/shop/rotate-secret", `{}`)
	var saved sdk.SavedForgeEntity
	require.NoError(t, json.Unmarshal([]byte(made.body), &saved))
	require.Len(t, saved.WebhookSecret, 64)
	s.all([][2]string{{"install-forge-hook"}, {"get-forge"}, {"list-forges"}, {"get-forge-hook"}, {"check-forge"}})

	// A replica without the key.
	whole := w.url
	lacking := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(lacking, []byte("other:"+strings.Repeat("QUFB", 10)+"QUE=\n"), 0o600))
	w.url = w.serve(options(lacking))
	s.all(forgeRequests(byToken, entity, rotation))
	w.url = whole
	s.one("delete-forge", "")
	s.one("delete-forge-credential", "")

	for id, op := range s.operations {
		if op.tag == "forges" {
			require.True(t, s.covered[id], "%s is of forges and is not in this test", id)
		}
	}
	require.Positive(t, s.statuses[2]*s.statuses[4]*s.statuses[5], "some of each: %v", s.statuses)
	audit := w.call(w.token["owner"], http.MethodGet, "/api/v1/audit?limit=500", "")
	require.Contains(t, audit.body, "forge-credential.update")
	var events string
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT coalesce(string_agg(a::text, ''), '') FROM audit_log a").Scan(&events))
	for _, hidden := range []string{
		token, first, second, tiny, odd, password, saved.WebhookSecret, strings.Split(appKey, "\n")[1],
		"QUFBQUFB", // of the keys' file
	} {
		for where, text := range map[string]string{
			"answers": s.said.String(), "audit log": audit.body + events, "server's log": log.String(), "rows": w.forgeRows(),
		} {
			if at := strings.Index(text, hidden); at >= 0 {
				t.Errorf("%s is in the %s: …%s…", hidden, where, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
}
