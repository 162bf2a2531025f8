package dbtest

import (
	"context"
	"testing"

	"github.com/prewarm-dev/prewarm/database"
)

// references are the names that no foreign key checks, since the statements that write them are hot. Each query finds
// those of which there is no row.
var references = map[string]string{
	"workspace without its preset": `SELECT count(*) FROM workspaces w WHERE NOT EXISTS
		(SELECT FROM presets p WHERE p.id = w.preset_id AND p.template_id = w.template_id)`,
	"workspace without its version": `SELECT count(*) FROM workspaces w WHERE NOT EXISTS
		(SELECT FROM template_versions v WHERE v.id = w.template_version_id AND v.template_id = w.template_id)`,
	"job without its workspace": `SELECT count(*) FROM jobs j WHERE NOT EXISTS
		(SELECT FROM workspaces w WHERE w.id = j.workspace_id)`,
	"claim without its preset": `SELECT count(*) FROM claims c WHERE NOT EXISTS
		(SELECT FROM presets p WHERE p.id = c.preset_id)`,
	"claim without its user": `SELECT count(*) FROM claims c WHERE NOT EXISTS
		(SELECT FROM users u WHERE u.id = c.user_id)`,
	"claimed workspace without its claim": `SELECT count(*) FROM workspaces w WHERE w.state = 'claimed' AND NOT EXISTS
		(SELECT FROM claims c WHERE c.id = w.claim_id AND c.workspace_id = w.id AND c.incarnation = w.incarnation
		   AND c.user_id = w.owner_id AND c.preset_id = w.preset_id)`,
}

// CheckReferences fails the test if something names a row that is not there.
func CheckReferences(t testing.TB, store *database.Store) {
	t.Helper()
	for what, query := range references {
		var n int
		if err := store.Pool.QueryRow(context.Background(), query).Scan(&n); err != nil {
			t.Errorf("look for a %s: %v", what, err)
		} else if n > 0 {
			t.Errorf("%d times: %s", n, what)
		}
	}
}
