package events_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

func exec(t *testing.T, q database.DBTX, statement string, args ...any) {
	t.Helper()
	_, err := q.Exec(context.Background(), statement, args...)
	require.NoError(t, err)
}

// forge is an entity that came about by hand.
func forge(t *testing.T, store *database.Store, name string) (entity uuid.UUID) {
	t.Helper()
	credential, entity := uuid.New(), uuid.New()
	exec(t, store.Pool, `INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
		VALUES ($1, $2, $3, 'github', 'https://forge.test', 'token', 'x', 'k', now(), now())`, credential, auth.DefaultOrganizationID, name)
	exec(t, store.Pool, `INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by, created_at, updated_at)
		VALUES ($1, $2, $3, 'repository', 'acme/shop', $4, 'x', 'k', now(), now())`, entity, auth.DefaultOrganizationID, name, credential)
	exec(t, store.Pool, `INSERT INTO forge_status (entity_id) VALUES ($1)`, entity)
	return entity
}

// job writes one that is queued, as changed so long ago.
func job(t *testing.T, q database.DBTX, entity uuid.UUID, number int64, ago time.Duration) {
	t.Helper()
	exec(t, q, `INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, queued_at, seen_at, updated_at)
		VALUES ($1, $2, 'https://forge.test', $3, 1, $4, 'acme/shop', '{linux}', 'queued', now(), now(), clock_timestamp() - $5::interval)`,
		uuid.New(), auth.DefaultOrganizationID, number, entity, ago)
}

func about(topic string, entity uuid.UUID) sdk.Hint {
	return sdk.Hint{Topic: topic, ID: entity.String()}
}

// Jobs, runners and how it goes with a forge are told as they change; one hint for all jobs of an entity.
func TestHub_forges(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	hub, who := newHub(t, store), owner(t, store)
	s := subscribe(t, hub, who)
	entity := forge(t, store, "acme")
	until(t, s, about(sdk.TopicForge, entity))

	for n := range int64(20) {
		job(t, store.Pool, entity, n, 0)
	}
	until(t, s, about(sdk.TopicForgeJob, entity))
	job(t, store.Pool, entity, 100, 5*time.Second) // committed late
	until(t, s, about(sdk.TopicForgeJob, entity))
	exec(t, store.Pool, `UPDATE forge_jobs SET state = 'completed', updated_at = clock_timestamp() WHERE job_id = 3`)
	until(t, s, about(sdk.TopicForgeJob, entity))

	exec(t, store.Pool, `INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status_at, status_since, created_at)
		VALUES ($1, 1, $2, $3, 'prebuild-a', now(), now(), now())`, uuid.New(), uuid.New(), entity)
	until(t, s, about(sdk.TopicRunner, entity))
	exec(t, store.Pool, `UPDATE forge_runners SET status = 'idle'`)
	until(t, s, about(sdk.TopicRunner, entity))
	exec(t, store.Pool, `UPDATE forge_runners SET status = 'gone'`)
	until(t, s, about(sdk.TopicRunner, entity))

	exec(t, store.Pool, `UPDATE forge_status SET error = 'no answer', error_at = now() WHERE entity_id = $1`, entity)
	until(t, s, about(sdk.TopicForge, entity))
	exec(t, store.Pool, `UPDATE forge_entities SET deleted_at = now() WHERE id = $1`, entity)
	until(t, s, about(sdk.TopicForge, entity))
}

// A change is told once, though each look reads it again for a while.
func TestHub_jobsAreToldOnce(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	hub, who := newHub(t, store), owner(t, store)
	s := subscribe(t, hub, who)
	entity := forge(t, store, "acme")
	job(t, store.Pool, entity, 1, 0)
	until(t, s, about(sdk.TopicForgeJob, entity))
	for range 4 { // looks go by
		audit(t, store.Pool, "mark")
		for {
			hints := next(t, s).Hints
			require.NotContains(t, hints, about(sdk.TopicForgeJob, entity))
			if slices.Contains(hints, preset("mark")) {
				break
			}
		}
	}
}
