package dbtest

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
)

// Forge makes an entity of the default organization with a credential of that kind ("github", "gitea"). Its secrets are no
// secrets and open with no key: it is for tests that ask no forge. Scope is "repository", "organization" or "enterprise".
func Forge(t testing.TB, store *database.Store, name, kind, scope string) (entity uuid.UUID) {
	t.Helper()
	entity = uuid.New()
	_, err := store.Pool.Exec(context.Background(), `WITH credential AS (
			INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
			SELECT gen_random_uuid(), o.id, $2, $3::forge_kind, 'https://forge.invalid', 'token', '\x00', 'none', now(), now()
			FROM organizations o WHERE o.name = 'default'
			RETURNING id, organization_id
		)
		INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by, created_at, updated_at)
		SELECT $1, c.organization_id, $2, $4::forge_scope, 'acme', c.id, '\x00', 'none', now(), now() FROM credential c`,
		entity, name, kind, scope)
	require.NoError(t, err)
	return entity
}
