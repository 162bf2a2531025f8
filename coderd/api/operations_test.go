package api_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// operation is one of the OpenAPI document.
type operation struct {
	id, method, path, summary, tag string
	action                         auth.Action
}

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// request is a path that fits the operation and names nothing that exists.
func (o operation) request() (path, body string) {
	path = parameter.ReplaceAllString(strings.Replace(o.path, "{port}", "1", 1), "nothing")
	if o.id == "delete-pause" {
		path += "?scope=provider&target=nothing"
	}
	if o.method != http.MethodPost {
		return path, ""
	}
	return path, map[string]string{
		"create-claim": `{"template":"nothing","preset":"nothing"}`,
		"create-token": `{"name":"x"}`,
		"create-pause": `{"scope":"provider","target":"nothing","reason":"x"}`,
		"apply":        `{"document":"nothing"}`,
		"create-plan":  `{"document":"nothing"}`,

		"keep-workspace": `{"reason":"x"}`,

		"start-process": `{"shell":"x"}`, "run-process": `{"shell":"x"}`, "signal-process": `{"signal":"TERM"}`,
		"resize-process": `{"rows":1,"cols":1}`,
		"make-directory": `{"path":"x"}`, "move-file": `{"from":"x","to":"y"}`, "copy-file": `{"from":"x","to":"y"}`,

		"write-terraform-state": `{}`, "lock-terraform-state": `{}`,

		"rotate-signing-key": `{}`, "report-instance": `{"status":"ready"}`,
		"stop-forge": `{"reason":"x"}`, "rotate-forge-secret": `{}`,
		"check-provider": `{}`, "rollback-template": `{}`, "reset-preset": `{}`, "invalidate-preset": `{}`,
	}[o.id]
}

// operations reads the document that a server would serve.
func operations(t *testing.T) []operation {
	t.Helper()
	raw, err := api.Document("test")
	require.NoError(t, err)
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			ID      string      `json:"operationId"`
			Summary string      `json:"summary"`
			Tags    []string    `json:"tags"`
			Action  auth.Action `json:"x-action"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	var list []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			list = append(list, operation{
				id: op.ID, method: strings.ToUpper(method), path: path, summary: op.Summary, action: op.Action, tag: op.Tags[0],
			})
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return list
}

// TestOperations holds the list of operations, each with its action, against testdata/operations.txt; the document and
// what is served are made of the same declarations.
func TestOperations(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, op := range operations(t) {
		require.Contains(t, auth.Actions(), op.action, op.id)
		fmt.Fprintf(&b, "%-6s %-45s %-22s %s\n", op.method, op.path, op.id, op.action)
	}
	golden(t, "operations.txt", b.String())
}

// TestOperationsPage: docs/api.md ends with a table of all operations.
func TestOperationsPage(t *testing.T) {
	t.Parallel()
	const path, marker = "../../docs/api.md", "-run TestOperations -update` -->\n"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	head, got, found := strings.Cut(string(page), marker)
	require.True(t, found)
	var want strings.Builder
	want.WriteString("\n| operation | what it does | action |\n| --- | --- | --- |\n")
	for _, op := range operations(t) {
		fmt.Fprintf(&want, "| `%s %s` | %s | `%s` |\n", op.method, strings.TrimPrefix(op.path, "/api/v1"), op.summary, op.action)
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+marker+want.String()), 0o644))
		return
	}
	require.Equal(t, want.String(), got)
}

// TestDocument: what is served at /openapi.json is that document, and the page for people has every operation.
func TestDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	served := w.call("", http.MethodGet, "/openapi.json", "")
	require.Equal(t, http.StatusOK, served.status)
	want, err := api.Document("test")
	require.NoError(t, err)
	require.JSONEq(t, string(want), served.body)
	page := w.call("", http.MethodGet, "/docs", "")
	text := regexp.MustCompile(`<[^>]*>|\s+`).ReplaceAllString(page.body, " ")
	text = strings.Join(strings.Fields(text), " ")
	for _, op := range operations(t) {
		require.Contains(t, text, op.method+" "+op.path+" ")
	}
	require.NotContains(t, page.body, "<script")
}

// TestEverybodyAndEverything calls every operation as everybody: with no token, one that is wrong, revoked, expired or
// malformed, it is 401 wherever; with each role it is 403 exactly where the policy gives no part.
func TestEverybodyAndEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	token := func(name string) string {
		_, secret, err := auth.CreateToken(ctx, w.store, w.owner, auth.TokenRequest{Name: name, ExpiresIn: time.Hour})
		require.NoError(t, err)
		return secret.Reveal()
	}
	refused := map[string]string{
		"no token": "", "wrong": auth.NewSecret().Reveal(), "malformed": "pw_x y", "revoked": token("revoked"), "expired": token("expired"),
	}
	require.NoError(t, auth.RevokeToken(ctx, w.store, w.owner, "revoked"))
	_, err := w.store.Pool.Exec(ctx, "UPDATE tokens SET expires_at = now() WHERE name = 'expired'")
	require.NoError(t, err)

	before := w.dump()
	for _, op := range operations(t) {
		path, body := op.request()
		for name, token := range refused {
			a := w.call(token, op.method, path, body)
			require.Equal(t, http.StatusUnauthorized, a.status, "%s with %s: %s", op.id, name, a.body)
			require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
			a.problem(t)
		}
	}
	require.Equal(t, before, w.dump())

	for user, role := range map[string]database.Role{
		"owner": database.RoleOwner, "admin": database.RoleTemplateAdmin, "member": database.RoleMember,
		"auditor": database.RoleAuditor,
	} {
		for _, op := range operations(t) {
			path, body := op.request()
			a := w.call(w.token[user], op.method, path, body)
			if auth.PartOf(role, op.action) == auth.None {
				require.Equal(t, http.StatusForbidden, a.status, "%s as %s: %s", op.id, role, a.body)
				a.problem(t)
				continue
			}
			require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError},
				a.status, "%s as %s: %s", op.id, role, a.body)
		}
	}
	a := w.call(w.token["owner"], http.MethodGet, "/api/v1/presets?organization=elsewhere", "")
	require.Equal(t, http.StatusForbidden, a.status)
}

// TestOthersWorkspaces: for a member the workspaces of others, and those of nobody, do not exist.
func TestOthersWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs, prebuild := w.workspace("quickstart", "claimed", "other"), w.workspace("quickstart", "ready", "prewarm")
	mine := w.workspace("quickstart", "claimed", "member")
	before := w.dump()
	tried := 0
	for _, op := range operations(t) {
		if !strings.Contains(op.path, "{workspace}") {
			continue
		}
		for _, ref := range []string{theirs.Name, theirs.ID.String(), prebuild.Name} {
			_, body := op.request()
			a := w.call(w.token["member"], op.method, strings.NewReplacer("{workspace}", ref, "{port}", "1").Replace(op.path), body)
			require.Equal(t, http.StatusNotFound, a.status, "%s: %s", op.id, a.body)
			tried++
		}
	}
	require.GreaterOrEqual(t, tried, 15)
	require.Equal(t, before, w.dump())

	list, err := w.as("member").Workspaces(context.Background(), sdkFilter("", 0, ""))
	require.NoError(t, err)
	require.Len(t, list.Workspaces, 1)
	require.Equal(t, mine.ID, list.Workspaces[0].ID)
	require.Equal(t, map[string]string{"SECRET": "x"}, list.Workspaces[0].Environment)

	// An auditor sees all there is, but not what is inside; and enters nothing.
	list, err = w.as("auditor").Workspaces(context.Background(), sdkFilter("", 0, ""))
	require.NoError(t, err)
	require.Len(t, list.Workspaces, 3)
	for _, x := range list.Workspaces {
		require.Empty(t, x.Environment)
	}
	// Who is not the owner forces nothing.
	for _, user := range []string{"member", "admin"} {
		a := w.call(w.token[user], http.MethodDelete, "/api/v1/workspaces/"+mine.Name+"?force=true", "")
		require.Equal(t, http.StatusForbidden, a.status)
	}
}
