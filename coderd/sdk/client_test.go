package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// newClient returns a client of a server that answers with handler.
func newClient(t *testing.T, handler http.HandlerFunc) *sdk.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := sdk.New(server.URL, "pw_secret")
	if err != nil {
		t.Fatal(err)
	}
	client.Clock = quartz.NewMock(t)
	return client
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // that only a hang exceeds
	t.Cleanup(cancel)
	return ctx
}

// Each method of the client is one request.
func TestRequests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		want string // method, URI and body
		call func(context.Context, *sdk.Client) error
	}{
		{"GET /api/v1/presets", func(ctx context.Context, c *sdk.Client) error { _, err := c.Presets(ctx); return err }},
		{"GET /api/v1/presets/t/p", func(ctx context.Context, c *sdk.Client) error {
			_, err := c.Preset(ctx, "t", "p")
			return err
		}},
		{"POST /api/v1/presets/t/p/nudge", func(ctx context.Context, c *sdk.Client) error {
			return c.NudgePreset(ctx, "t", "p")
		}},
		{
			`POST /api/v1/claims {"template":"t","preset":"p","mode":"require","wait":"5s","key":"k"}`,
			func(ctx context.Context, c *sdk.Client) error {
				_, err := c.Claim(ctx, sdk.ClaimRequest{Template: "t", Preset: "p", Mode: "require", Wait: "5s", Key: "k"})
				return err
			},
		},
		{"GET /api/v1/workspaces", func(ctx context.Context, c *sdk.Client) error {
			_, err := c.Workspaces(ctx, sdk.WorkspaceFilter{})
			return err
		}},
		{
			"GET /api/v1/workspaces?after=n&limit=5&owner=o&preset=p&state=ready&template=t",
			func(ctx context.Context, c *sdk.Client) error {
				_, err := c.Workspaces(ctx, sdk.WorkspaceFilter{
					State: "ready", Template: "t", Preset: "p", Owner: "o", Limit: 5, After: "n",
				})
				return err
			},
		},
		{"GET /api/v1/workspaces/a%2Fb%3Fc", func(ctx context.Context, c *sdk.Client) error {
			_, err := c.Workspace(ctx, "a/b?c")
			return err
		}},
		{"GET /api/v1/workspaces/w/logs?follow=true", func(ctx context.Context, c *sdk.Client) error {
			logs, err := c.WorkspaceLogs(ctx, "w", true)
			if err == nil {
				err = logs.Close()
			}
			return err
		}},
		{"POST /api/v1/workspaces/w/release", func(ctx context.Context, c *sdk.Client) error {
			_, err := c.ReleaseWorkspace(ctx, "w")
			return err
		}},
		{"DELETE /api/v1/workspaces/w?force=true", func(ctx context.Context, c *sdk.Client) error {
			_, err := c.DeleteWorkspace(ctx, "w", true)
			return err
		}},
		{"GET /api/v1/templates", func(ctx context.Context, c *sdk.Client) error { _, err := c.Templates(ctx); return err }},
		{"GET /api/v1/templates/t", func(ctx context.Context, c *sdk.Client) error {
			_, err := c.Template(ctx, "t")
			return err
		}},
		{"POST /api/v1/templates/t/deprecate", func(ctx context.Context, c *sdk.Client) error {
			return c.DeprecateTemplate(ctx, "t")
		}},
		{"DELETE /api/v1/templates/t/deprecate", func(ctx context.Context, c *sdk.Client) error {
			return c.UndeprecateTemplate(ctx, "t")
		}},
		{"DELETE /api/v1/templates/t", func(ctx context.Context, c *sdk.Client) error {
			return c.DeleteTemplate(ctx, "t")
		}},
		{
			`POST /api/v1/apply {"document":"x: 1","file":"f.yaml","dry_run":true}`,
			func(ctx context.Context, c *sdk.Client) error {
				_, err := c.Apply(ctx, sdk.ApplyRequest{Document: "x: 1", File: "f.yaml", DryRun: true})
				return err
			},
		},
		{"GET /api/v1/replicas", func(ctx context.Context, c *sdk.Client) error { _, err := c.Replicas(ctx); return err }},
		{
			"GET /api/v1/audit?action=a&actor=b&before=7&limit=3&target=c",
			func(ctx context.Context, c *sdk.Client) error {
				_, err := c.Audit(ctx, sdk.AuditFilter{Action: "a", Actor: "b", Target: "c", Limit: 3, Before: 7})
				return err
			},
		},
		{"GET /api/v1/whoami", func(ctx context.Context, c *sdk.Client) error { _, err := c.Whoami(ctx); return err }},
		{"POST /api/v1/login", func(ctx context.Context, c *sdk.Client) error { _, err := c.Login(ctx); return err }},
		{"GET /api/v1/tokens", func(ctx context.Context, c *sdk.Client) error { _, err := c.Tokens(ctx); return err }},
		{`POST /api/v1/tokens {"name":"n","user":"u"}`, func(ctx context.Context, c *sdk.Client) error {
			_, err := c.CreateToken(ctx, sdk.CreateTokenRequest{Name: "n", User: "u"})
			return err
		}},
		{"DELETE /api/v1/tokens/n", func(ctx context.Context, c *sdk.Client) error { return c.RevokeToken(ctx, "n") }},
		{"GET /api/v1/pauses", func(ctx context.Context, c *sdk.Client) error { _, err := c.Pauses(ctx); return err }},
		{`POST /api/v1/pauses {"scope":"global","reason":"r"}`, func(ctx context.Context, c *sdk.Client) error {
			_, err := c.Pause(ctx, sdk.PauseRequest{Scope: "global", Reason: "r"})
			return err
		}},
		{"DELETE /api/v1/pauses?scope=preset&target=t%2Fp", func(ctx context.Context, c *sdk.Client) error {
			return c.Resume(ctx, "preset", "t/p")
		}},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			var got, authorization string
			client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
				authorization = r.Header.Get("Authorization")
				_, _ = io.WriteString(w, "null")
			})
			if err := test.call(testContext(t), client); err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("sent %s", got)
			}
			if authorization != "Bearer pw_secret" {
				t.Errorf("sent authorization %q", authorization)
			}
		})
	}
}

func TestOrganizationGoesWithEveryRequest(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode([]sdk.Preset{{Organization: r.URL.Query().Get("organization")}})
	})
	client.Organization = "a b"
	presets, err := client.Presets(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(presets) != 1 || presets[0].Organization != "a b" {
		t.Fatalf("got %+v", presets)
	}
}

// A name that would address something else is not sent at all.
func TestNamesThatAddressSomethingElse(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	for _, name := range []string{"", ".", ".."} {
		if _, err := client.DeleteWorkspace(testContext(t), name, false); err == nil {
			t.Errorf("%q was taken for a name", name)
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://127.0.0.1:7080":           "http://127.0.0.1:7080",
		"https://example.com/prewarm?a#b": "https://example.com/prewarm",
		"127.0.0.1:7080":                  "",
		"localhost:7080":                  "",
		"ftp://example.com":               "",
		"http://":                         "",
		"http://user:hunter2@example.com": "",
		"":                                "",
	} {
		u, err := sdk.ParseURL(raw)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q was taken for %s", raw, u)
		case want == "" && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("the password is in %q", err)
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q became %v, %v", raw, u, err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status      int
		contentType string
		body        string
		want        string
	}{
		"problem": {
			404, "application/problem+json", `{"title":"Not Found","status":404,"detail":"there is no template x"}`,
			"there is no template x",
		},
		"several things wrong": {
			422, "application/problem+json; charset=utf-8",
			`{"detail":"the file is wrong","errors":[{"message":"unknown key","location":"f.yaml:3:1"},{"message":"odd"}]}`,
			"the file is wrong\n  f.yaml:3:1: unknown key\n  odd",
		},
		"without detail": {409, "application/problem+json", `{"title":"Conflict"}`, "the server answered 409 Conflict"},
		"broken problem": {500, "application/problem+json", `{"detail":`, "the server answered 500 Internal Server Error"},
		"proxy's text":   {403, "text/plain", "no entry\nsecond line", "no entry"},
		"proxy's page":   {413, "text/html", "<h1>too big</h1>", "the server answered 413 Request Entity Too Large"},
		"nothing":        {418, "", "", "the server answered 418 I'm a teapot"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			_, err := client.Presets(testContext(t))
			var e *sdk.Error
			if !errors.As(err, &e) || e.Status != test.status || sdk.StatusOf(err) != test.status {
				t.Fatalf("got %#v", err)
			}
			if err.Error() != test.want {
				t.Errorf("got message %q", err)
			}
		})
	}
}

func TestAnswerThatIsNoJSON(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	if _, err := client.Presets(testContext(t)); err == nil || !strings.Contains(err.Error(), "decode answer of GET") {
		t.Fatalf("got %v", err)
	}
}

func TestRefusedConnectionIsRecognised(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	client, err := sdk.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Login(testContext(t)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v", err)
	}
}
