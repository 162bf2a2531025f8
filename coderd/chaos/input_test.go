package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// contents is what a database holds: the number of rows of every table, and all of what people configure.
func contents(t *testing.T, store *database.Store) map[string]string {
	t.Helper()
	ctx := context.Background()
	rows, err := store.Pool.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
	require.NoError(t, err)
	held := map[string]string{}
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		held[table] = "count(*)::text"
	}
	require.NoError(t, rows.Err())
	// What the server writes down of its own work, whenever it is time.
	for _, own := range []string{
		"template_passes", "provider_calls", "inventories", "times_at_work", "create_rates",
		"autosize_progress", "claim_history", "preset_samples", // once a minute
	} {
		require.Contains(t, held, own)
		delete(held, own)
	}
	for _, table := range []string{"providers", "templates", "template_versions", "presets", "pauses", "memberships"} {
		require.Contains(t, held, table)
		held[table] = `coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '')`
	}
	for table, what := range held {
		var content string
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT "+what+" FROM "+table+" t").Scan(&content))
		held[table] = content
	}
	return held
}

// document is a configuration of which one line is wrong.
func document(provider, name, prebuilds string) string {
	return fmt.Sprintf(`
templates:
  - name: %s
    provider: %s
    spec: {command: [sleep, infinity]}
    presets:
      - name: default
        prebuilds: %s
`, name, provider, prebuilds)
}

// Wrong input of all kinds gets an answer that names what is wrong and what to do, and changes nothing.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	n, server := newNewcomer(t)
	n.pool()
	ctx := context.Background()
	revoked, err := server.Client.CreateToken(ctx, sdk.CreateTokenRequest{Name: "revoked"})
	require.NoError(t, err)
	require.NoError(t, server.Client.RevokeToken(ctx, revoked.ID.String()))
	w := &world{t: t, dir: server.DataDir}
	store := w.store()
	before := contents(t, store)

	for name, test := range map[string]struct {
		document string
		want     string
	}{
		"malformed YAML":        {"templates:\n  - name: a\n\tprovider: local\n", "wrong.yaml:3:1: malformed YAML"},
		"unknown provider":      {document("locla", "a", "{instances: 1}"), `(did you mean "local"?)`},
		"negative instances":    {document("local", "a", "{instances: -1}"), "instances is -1: it must be between 0 and"},
		"10 million instances":  {document("local", "a", "{instances: 10000000}"), "it must be between 0 and"},
		"instances in words":    {document("local", "a", `{instances: "three"}`), "must be a whole number"},
		"name with a separator": {document("local", "../a", "{instances: 1}"), `template name "../a": use lower-case`},
		"bad duration":          {document("local", "a", "{instances: 1, ttl: 5 days}"), `ttl "5 days" is not a duration`},
		"unknown key":           {document("local", "a", "{instance: 1}"), `(did you mean "instances"?)`},
		"duplicate name":        {document("local", "a", "{instances: 1}") + "  - {name: a}\n", "is used twice"},
		"too large":             {document("local", "a", "{instances: 1}") + strings.Repeat("# more\n", 1<<18), "larger than 1024 KiB"},
		"not text":              {"\x00\x01\xff", "NUL byte: is it a text file?"},
		"nothing":               {"", "the file is empty"},
	} {
		t.Run("apply "+name, func(t *testing.T) {
			out := n.run("apply", "-f", write(t, n.home, "wrong.yaml", test.document))
			assert.Equal(t, 1, out.Status)
			assert.Contains(t, out.Stderr, test.want)
			assert.Empty(t, out.Stdout)
		})
	}
	for _, test := range []struct {
		args   string
		env    string
		status int
		want   string
	}{
		{"apply -f nowhere.yaml", "", 1, "nowhere.yaml: no such file"},
		{"claim quickstrat/default", "", 1, `did you mean "quickstart/default"?`},
		{"claim quickstart/defualt", "", 1, `did you mean "default"?`},
		{"claim ../../etc/passwd", "", 2, "write TEMPLATE/PRESET"},
		{"claim quickstart/..", "", 1, `has no preset ".."`},
		{"claim quickstart/default --mode maybe", "", 2, `unknown mode "maybe": it is prefer, require or bypass`},
		{"claim quickstart/default --wait -1s", "", 2, "must not be negative"},
		{"claim", "", 2, "TEMPLATE/PRESET is missing"},
		{"workspace show ../../etc", "", 1, `there is no workspace "../../etc"`},
		{"workspace release nobody", "", 1, `there is no workspace "nobody"`},
		{"preset list --frobnicate", "", 2, "unknown flag: --frobnicate"},
		{"preset list -o xml", "", 2, "it is one of table, wide, json, yaml"},
		{"frobnicate", "", 2, `unknown command "frobnicate"`},
		{"preset list", "PREWARM_TOKEN=wrong", 1, `log in with "prewarm login"`},
		{"preset list", "PREWARM_TOKEN=" + revoked.Secret, 1, "unknown, expired or revoked"},
		{"preset list", "HOME=/nowhere", 1, "or set PREWARM_TOKEN"},
		{"preset list", "PREWARM_URL=http://127.0.0.1:1", 1, "nothing listens at http://127.0.0.1:1"},
		{"preset list", "PREWARM_URL=ftp://x", 2, "it must look like http://"},
		{"server --tick often", "", 2, `invalid argument "often"`},
		{"server --tick 0s", "", 2, "--tick must be more than 0"},
		{"server --listen nowhere", "", 2, "write HOST:PORT"},
	} {
		t.Run(strings.ReplaceAll(test.args, "/", "|")+" "+strings.SplitN(test.env, "=", 2)[0], func(t *testing.T) {
			asked := *n
			asked.env = append(append([]string{}, n.env...), test.env)
			out := asked.run(strings.Fields(test.args)...)
			assert.Equal(t, test.status, out.Status, out.Stderr)
			assert.Contains(t, out.Stderr, test.want)
			assert.Empty(t, out.Stdout)
			assert.Equal(t, 1, strings.Count(out.Stderr, "prewarm: "), "it is said once: %s", out.Stderr)
		})
	}
	assert.Equal(t, before, contents(t, store), "nothing has changed")
}

// What no client of ours would send.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	n, server := newNewcomer(t)
	n.pool()
	store := (&world{t: t, dir: server.DataDir}).store()
	before := contents(t, store)
	large := 50 << 20

	for _, test := range []struct {
		name, method, path, token string
		body                      io.Reader
		status                    int
		want                      string
	}{
		{"50 MB", "POST", "/claims", server.Client.Token, bytes.NewReader(make([]byte, large)), 413, "too large"},
		{"50 MB of unknown length", "POST", "/claims", server.Client.Token, io.LimitReader(zeros{}, int64(large)), 413, "too large"},
		{"50 MB without a token", "POST", "/apply", "", bytes.NewReader(make([]byte, large)), 413, "too large"},
		{"half a document", "POST", "/claims", server.Client.Token, strings.NewReader(`{"template":`), 400, "unexpected end"},
		{"unknown fields", "POST", "/claims", server.Client.Token, strings.NewReader(`{"template":"quickstart","preset":"default","x":1}`), 422, "unexpected property"},
		{"NUL in a name", "POST", "/claims", server.Client.Token, strings.NewReader(`{"template":"a\u0000","preset":"default"}`), 422, "has control characters"},
		{"escaped separators", "GET", "/workspaces/..%2f..%2fetc", server.Client.Token, nil, 404, "there is no workspace"},
		{"dots", "GET", "/workspaces/../../etc", server.Client.Token, nil, 404, "there is nothing at"},
		{"no such method", "PUT", "/presets", server.Client.Token, nil, 405, "only GET"},
		{"no token", "GET", "/presets", "", nil, 401, "a token is needed"},
		{"a token of another kind", "GET", "/presets", "Basic\tx", nil, 401, "not valid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequest(test.method, server.URL+"/api/v1"+test.path, test.body)
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			if test.token != "" {
				req.Header.Set("Authorization", "Bearer "+test.token)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, test.status, resp.StatusCode)
			assert.Contains(t, string(said), test.want)
			assert.True(t, json.Valid(said), "an answer is a problem document: %s", said)
		})
	}
	assert.Equal(t, before, contents(t, store), "nothing has changed")
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
