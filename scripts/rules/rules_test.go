package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.mod"))
	return dir
}

// TestRepository is what enforces the rules.
func TestRepository(t *testing.T) {
	t.Parallel()
	dir := root(t)
	tree, err := Read(os.DirFS(dir), dir)
	require.NoError(t, err)
	require.Greater(t, len(tree.Files), 100, "the repository is not there")
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			broken, idle, err := rule.Judge(tree, Allowed)
			require.NoError(t, err)
			for _, f := range broken {
				t.Errorf("%s\n\t%s", f, rule.Why)
			}
			for _, e := range idle {
				t.Errorf("allowed.go: %s may break %q, and does not: remove the exception", e.File, e.Rule)
			}
		})
	}
	names := make(map[string]bool)
	for _, rule := range Rules() {
		names[rule.Name] = true
	}
	for _, e := range Allowed {
		assert.True(t, names[e.Rule], "allowed.go: there is no rule %q", e.Rule)
		assert.NotEmpty(t, e.Why, "allowed.go: %s has no reason", e.File)
	}
}

// Each case is a file that breaks one rule in the lines given, and no other rule; a case without lines breaks none.
var cases = []struct {
	name, rule, file, text string
	lines                  []int
}{
	{
		name: "words of a page", rule: "words", file: "docs/x.md", lines: []int{1, 5, 8},
		text: "It is told.\n```sh\nprewarm told\n```\nfine `beside` and look: all of\nit\n\nWhoever comes.\n",
	},
	{
		name: "words of a message", rule: "words", file: "coderd/x/x.go", lines: []int{3, 6},
		text: "package x\n\nvar a = \"made anew at once\"\n\nvar b = `one line\nbeside another`\n\nvar name = \"beside\" // told to nobody\n",
	},
	{name: "words of a decision", rule: "words", file: "docs/decisions/x.md", text: "It is told.\n"},
	{
		name: "long sentences of a page", rule: "sentences", file: "docs/x.md", lines: []int{3, 8, 10},
		text: "# " + strings.Repeat("word ", 25) + "\n\nShort. " + long + ".\nShort: `" + long + "`.\n" +
			"```sh\n" + long + "\n```\n- " + long + "\n\n| a | " + long + " |\n",
	},
	{
		name: "long sentences of a message", rule: "sentences", file: "cmd/x/x.go", lines: []int{3, 5, 9, 15, 20},
		text: "package x\n\nvar a = \"" + long + "\"\n\nvar b = \"twelve \" + name +\n\t\"" + long + "\"\n\n" +
			"var c = `Short.\n" + long + "\n\n  " + long + "\n`\n\n" +
			"type T struct {\n\tA string `json:\"a\" doc:\"" + long + "\"`\n}\n\nvar d = `cd a && " + long + "`\n" +
			"\nvar e = \"short \" + f(\"" + long + "\")\n",
	},
	{
		name: "programs of tests", rule: "programs", file: "coderd/x/x_test.go", lines: []int{6},
		text: "package x\n\nimport \"os\"\n\nfunc f() {\n\t_ = os.WriteFile(\"a\", nil, 0o700)\n\t_ = os.WriteFile(\"b\", nil, 0o600)\n}\n",
	},
	{name: "long sentences of a decision", rule: "sentences", file: "docs/decisions/x.md", text: long + "\n"},
	{name: "words of the policy", rule: "words", file: "SECURITY.md", lines: []int{1}, text: "Whoever comes.\n"},
	{name: "words of the history", rule: "words", file: "CHANGELOG.md", text: "Whoever came.\n"},
	{
		name: "the wall clock", rule: "clock", file: "coderd/x/x.go", lines: []int{5, 6},
		text: "package x\n\nimport \"time\"\n\nvar now = time.Now\nfunc f() { time.Sleep(time.Second) }\n",
	},
	{
		name: "the wall clock under another name", rule: "clock", file: "coderd/x/x.go", lines: []int{5},
		text: "package x\n\nimport t \"time\"\n\nfunc f() { <-t.After(t.Second) }\n",
	},
	{
		name: "a test may look at the clock", rule: "clock", file: "coderd/x/x_test.go",
		text: "package x\n\nimport \"time\"\n\nvar now = time.Now()\n",
	},
	{
		name: "durations and dates are no clock", rule: "clock", file: "coderd/x/x.go",
		text: "package x\n\nimport \"time\"\n\nvar day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Hour)\n",
	},
	{
		name: "a reason that is read back", rule: "reasons", file: "coderd/x/x.go", lines: []int{6, 7, 8, 10},
		text: "package x\n\nimport \"strings\"\n\nfunc f(l struct{ Reason string }) bool {\n" +
			"\tif strings.HasPrefix(l.Reason, \"hard limit\") {\n\t\treturn l.Reason == \"paused\" ||\n" +
			"\t\t\tl.Reason[:2] == \"C6\"\n\t}\n\tswitch l.Reason {\n\tcase \"outdated\":\n\t}\n\treturn false\n}\n",
	},
	{
		name: "a reason that is there, and is passed on", rule: "reasons", file: "coderd/x/x.go",
		text: "package x\n\nimport \"strings\"\n\nfunc f(l struct{ Reason, Name string }) string {\n" +
			"\tif l.Reason == \"\" || strings.HasPrefix(l.Name, \"x\") {\n\t\treturn l.Name\n\t}\n\treturn \": \" + l.Reason\n}\n",
	},
	{
		name: "a test may look at the words", rule: "reasons", file: "coderd/x/x_test.go",
		text: "package x\n\nimport \"strings\"\n\nfunc f(l struct{ Reason string }) bool { return strings.Contains(l.Reason, \"x\") }\n",
	},
	{
		name: "a page that reads a text back", rule: "reasons", file: "site/src/x.tsx", lines: []int{1, 3},
		text: "const own = preset.paused?.startsWith(\"preset:\");\nconst is = preset.paused_scope === \"preset\";\n" +
			"const why = pool.reasons[0]?.replace(/^x: /, \"\");\nconst all = pool.reasons.map((r) => r);\n",
	},
	{
		name: "a statement that reads a text back", rule: "reasons", file: "queries/x.sql", lines: []int{2, 3},
		text: "-- name: X :many\nSELECT id FROM claims WHERE reason LIKE 'quota%';\nSELECT id FROM preset_status WHERE ledger::text ~ 'hard limit';\n" +
			"SELECT id FROM claims WHERE reason_code = 'quota' OR reason = '';\n",
	},
	{
		name: "a context from nowhere", rule: "background", file: "coderd/api/x.go", lines: []int{5},
		text: "package api\n\nimport \"context\"\n\nvar ctx = context.Background()\n",
	},
	{
		name: "a context for now", rule: "background", file: "coderd/api/x.go", lines: []int{5},
		text: "package api\n\nimport \"context\"\n\nvar ctx = context.TODO()\n",
	},
	{
		name: "a folder for tests", rule: "background", file: "coderd/xtest/x.go",
		text: "package xtest\n\nimport \"context\"\n\nvar ctx = context.Background()\n",
	},
	{
		name: "SQL", rule: "sql", file: "coderd/x/x.go", lines: []int{3, 5},
		text: "package x\n\nconst q = `\n\tSELECT id FROM workspaces`\nconst d = \"DELETE FROM workspaces\"\n",
	},
	{
		name: "SQL where it belongs", rule: "sql", file: "database/x.go",
		text: "package database\n\nconst q = \"SELECT 1\"\n",
	},
	{
		name: "a message and a route", rule: "sql", file: "coderd/x/x.go",
		text: "package x\n\nvar s = []string{\"DELETE /api/v1/workspaces\", \"select one with -o\", \"WITH care\"}\n",
	},
	{
		name: "a state set elsewhere", rule: "owners", file: "queries/claim/x.sql", lines: []int{4, 7},
		text: "-- name: X :exec\n-- As UPDATE workspaces in a comment.\nWITH old AS (SELECT w.id FROM workspaces w FOR NO KEY UPDATE), moved AS (\n" +
			"  UPDATE workspaces w SET state = 'claimed' FROM old WHERE w.id = old.id RETURNING w.id, w.incarnation\n" +
			"), claim AS (\n  UPDATE claims SET state = 'bound'\n), hist AS (INSERT INTO workspace_history (workspace_id, incarnation, " +
			"from_state, to_state, at, actor_id, reason)\nSELECT moved.id, moved.incarnation, 'ready', 'claimed', prewarm_now(), @by, @why FROM moved)\n" +
			"SELECT id FROM moved;\n",
	},
	{
		name: "a grant of another verb", rule: "owners", file: "queries/lifecycle/x.sql", lines: []int{2},
		text: "-- name: X :exec\nDELETE FROM jobs;\n\n-- name: Y :exec\nUPDATE jobs SET state = 'pending';\n",
	},
	{
		name: "views that write and lock", rule: "owners", file: "queries/views/x.sql", lines: []int{2, 5},
		text: "-- name: X :exec\nUPDATE presets SET name = '';\n\n-- name: Y :many\nSELECT id FROM presets FOR SHARE;\n\n" +
			"-- name: Z :many\nSELECT id FROM presets; -- not FOR UPDATE\n",
	},
	{
		name: "an upsert of one's own, and what is old", rule: "owners", file: "queries/retention/x.sql", lines: []int{5},
		text: "-- name: X :exec\nDELETE FROM workspaces w USING (SELECT id FROM workspaces FOR UPDATE SKIP LOCKED) o WHERE w.id = o.id;\n\n" +
			"-- name: Y :exec\nINSERT INTO plans (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET id = excluded.id;\n",
	},
	{
		name: "history and audit in forms of their own", rule: "records", file: "queries/workspaces/x.sql", lines: []int{1, 4, 11},
		text: "-- name: X :exec\nWITH moved AS (UPDATE workspaces w SET state_at = prewarm_now(), state = 'ready' RETURNING w.*)\n" +
			"SELECT id FROM moved;\n-- name: Y :exec\nINSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id, reason)\n" +
			"SELECT ws.id, ws.incarnation, ws.state, ws.state, prewarm_now(), @by, @why FROM workspaces ws;\n" +
			"-- name: Fine :exec\nINSERT INTO audit_log (at, actor_id, action, target_type, target_id, source)\nVALUES (prewarm_now(), @a, @b, @c, @d, @e);\n" +
			"-- name: Z :exec\nINSERT INTO audit_log (actor_id, at, action, target_type, target_id, source)\nVALUES (@a, prewarm_now(), @b, @c, @d, @e);\n",
	},
	{
		name: "an open end", rule: "open ends", file: "queries/x.sql", lines: []int{2},
		text: "SELECT 1;\n-- TO" + "DO: the other one\n",
	},
	{
		name: "somebody's home", rule: "paths", file: "docs/x.md", lines: []int{1, 3},
		text: "See /home/" + "jane/notes.\n~/notes is fine, and so is https://example.com/home/page.\n`/ro" + "ot/x`\n",
	},
	{
		name: "a long file", rule: "length", file: "queries/x.sql", lines: []int{501},
		text: strings.Repeat("SELECT 1;\n", 501),
	},
	{
		name: "a long generated file", rule: "length", file: "database/x.sql.go",
		text: "// Code generated by a test. DO NOT EDIT.\n\npackage database\n" + strings.Repeat("// x\n", 600),
	},
	{
		name: "a long generated file of another language", rule: "length", file: "site/src/generated/x.ts",
		text: "// Code generated by a test; DO NOT EDIT.\n" + strings.Repeat("// x\n", 600),
	},
	{
		name: "a provider inside a transaction", rule: "intx", file: "coderd/planted/x.go", lines: []int{17, 19},
		text: planted,
	},
}

// long is a sentence with one word too many.
var long = "Word" + strings.Repeat(" word", maxWords)

// planted validates a spec inside a transaction, which is fine, and calls the provider: itself, and in a nested function.
const planted = `package planted

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

func f(ctx context.Context, store *database.Store, p provider.Provider) error {
	return store.InTx(ctx, database.TxOptions{}, func(ctx context.Context, _ pgx.Tx) error {
		if len(p.Validate(nil, nil)) > 0 {
			return nil
		}
		_ = p.Delete(ctx, provider.Ref{})
		return func() error {
			_, err := p.Get(ctx, provider.Ref{})
			return err
		}()
	})
}

func fine(ctx context.Context, p provider.Provider) error { return p.Delete(ctx, provider.Ref{}) }
`

// Each rule catches what it is for, and leaves alone what only looks like it.
func TestRules(t *testing.T) {
	t.Parallel()
	caught := make(map[string]bool)
	for _, tc := range cases {
		caught[tc.rule] = caught[tc.rule] || len(tc.lines) > 0
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tree, err := Read(fstest.MapFS{tc.file: {Data: []byte(tc.text)}}, root(t))
			require.NoError(t, err)
			for _, rule := range Rules() {
				broken, _, err := rule.Judge(tree, nil)
				require.NoError(t, err)
				var lines []int
				for _, f := range broken {
					assert.Equal(t, tc.file, f.File)
					lines = append(lines, f.Line)
				}
				if rule.Name == tc.rule {
					assert.Equal(t, tc.lines, lines, "%s: %v", rule.Name, broken)
				} else {
					assert.Empty(t, broken, rule.Name)
				}
			}
		})
	}
	for _, rule := range Rules() {
		assert.True(t, caught[rule.Name], "no case breaks %q", rule.Name)
	}
}

// An exception holds for its own rule and file only, and is found out when nothing needs it.
func TestExceptions(t *testing.T) {
	t.Parallel()
	tree, err := Read(fstest.MapFS{
		"a.sql": {Data: []byte(strings.Repeat("SELECT 1;\n", 501))},
		"b.sql": {Data: []byte(strings.Repeat("SELECT 1;\n", 501))},
	}, root(t))
	require.NoError(t, err)
	exceptions := []Exception{{"length", "a.sql", "a test"}, {"sql", "b.sql", "a test"}, {"length", "c.sql", "a test"}}
	broken, idle, err := lengthRule().Judge(tree, exceptions)
	require.NoError(t, err)
	require.Len(t, broken, 1)
	require.Equal(t, "b.sql:501: 501 lines, more than 500", broken[0].String())
	require.Equal(t, []Exception{{"length", "c.sql", "a test"}}, idle)
}
