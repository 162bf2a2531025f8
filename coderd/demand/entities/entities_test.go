package entities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// The secret before is good until its overlap ends, and not after; of several that were replaced, only the last.
func TestOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	dbtest.SetNow(t, w.store, at)
	good := func(after time.Duration) []string {
		t.Helper()
		dbtest.SetNow(t, w.store, at.Add(after))
		w.service.Directory.Forget()
		return w.entity(w.service, "shop").Secrets
	}
	w.rotate(second, time.Hour)
	require.Equal(t, []string{second, first}, good(0))
	require.Equal(t, []string{second, first}, good(time.Hour-time.Second))
	require.Equal(t, []string{second}, good(time.Hour))
	require.Equal(t, []string{second}, good(48*time.Hour))

	at = at.Add(48 * time.Hour)
	w.rotate(third, 0)
	require.Equal(t, []string{third, second}, good(24*time.Hour-time.Second), "a day where nothing is said")
	require.Equal(t, []string{third}, good(24*time.Hour))

	at = at.Add(time.Hour)
	good(0)
	w.rotate(first, time.Hour)
	w.rotate(second, time.Hour)
	require.Equal(t, []string{second, first}, good(0), "and not the third")
	_, err := w.service.Put(context.Background(), w.who, "shop", entities.Change{Balance: "spread"})
	require.NoError(t, err)
	require.Equal(t, []string{second, first}, good(time.Minute), "another change leaves them as they are")
	require.Equal(t, []string{second}, good(time.Hour))
}

// With another credential, or the same with another secret, what the forge answered before says nothing: it is asked at once, and
// is not left alone any more. Another change leaves that as it is.
func TestCredential_forgeIsAskedAnew(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	w.put("spare", entities.Credential{Kind: "github", Token: token})
	for name, change := range map[string]struct {
		do   func() error
		anew bool
	}{
		"another secret": {func() error { return w.service.PutCredential(ctx, w.who, "acme", entities.Credential{Token: "other"}) }, true},
		"another credential": {func() error {
			_, err := w.service.Put(ctx, w.who, "shop", entities.Change{Credential: "spare"})
			return err
		}, true},
		"another balance": {func() error {
			_, err := w.service.Put(ctx, w.who, "shop", entities.Change{Balance: "spread"})
			return err
		}, false},
	} {
		_, err := w.service.Put(ctx, w.who, "shop", entities.Change{Credential: "acme"})
		require.NoError(t, err)
		_, err = w.store.Pool.Exec(ctx, `UPDATE forge_status SET asked_at = now(), wait_until = now() + interval '1 hour',
			runners_wait_until = now() + interval '1 hour'`)
		require.NoError(t, err)
		require.NoError(t, change.do())
		var waits int
		require.NoError(t, w.store.Pool.QueryRow(ctx,
			"SELECT num_nonnulls(asked_at, wait_until, runners_wait_until) FROM forge_status").Scan(&waits))
		require.Equal(t, change.anew, waits == 0, name)
	}
}

// The scope enterprise is a whole Gitea, which has no name to be found by; of GitHub it is an enterprise, which has one.
func TestEntity_wholeGitea(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	w.put("gitea", entities.Credential{Kind: "gitea", Token: token, URL: "https://gitea.example"})
	whole := entities.Change{Scope: "enterprise", Credential: "gitea"}
	_, err := w.service.Put(ctx, w.who, "all", whole)
	require.NoError(t, err)
	e := w.entity(w.service, "all")
	require.Equal(t, forge.Enterprise, e.Scope)
	require.Equal(t, "instance", e.Path)
	require.NotNil(t, w.client(w.service, "all"))
	_, err = w.service.Put(ctx, w.who, "all", whole)
	require.NoError(t, err, "to say the same again changes nothing")
	_, err = w.service.Put(ctx, w.who, "hub", entities.Change{Scope: "enterprise", Credential: "acme"})
	require.ErrorContains(t, err, `path "": with the scope enterprise it is like acme`)
}

// A secret that nobody named is made by chance, another each time, and is told to who asked.
func TestRotate_byChance(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	one, err := w.service.Rotate(ctx, w.who, "shop", entities.Change{Overlap: time.Hour})
	require.NoError(t, err)
	require.Len(t, one, 64)
	two, err := w.service.Rotate(ctx, w.who, "shop", entities.Change{Overlap: time.Hour})
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	require.Equal(t, []string{two, one}, w.entity(w.service, "shop").Secrets)
	_, err = w.service.Rotate(ctx, w.who, "shpo", entities.Change{})
	require.ErrorIs(t, err, auth.ErrNotFound)
	_, err = w.service.Rotate(ctx, w.who, "shop", entities.Change{WebhookSecret: "short"})
	require.ErrorContains(t, err, "at least 16 bytes")
	require.Equal(t, []string{two, one}, w.entity(w.service, "shop").Secrets)
}

// An entity stays while a preset names it or a runner of it lives, and its credential while it stays.
func TestDelete_refused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	id := w.entity(w.service, "shop").ID
	refused := func(says string) {
		t.Helper()
		err := w.service.Delete(ctx, w.who, "shop")
		require.ErrorIs(t, err, auth.ErrConflict)
		require.ErrorContains(t, err, says)
		_, err = w.service.DeleteCredential(ctx, w.who, "acme")
		require.ErrorContains(t, err, "credential acme is in use by forge shop")
		require.Equal(t, id, w.entity(w.service, "shop").ID)
	}
	dbtest.Fleet(t, w.store, dbtest.FleetSize{Pools: 1, Each: 1})
	w.exec("UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux}'", id)
	refused("named by preset t1/default")
	w.exec("UPDATE presets SET forge_entity_id = NULL, runner_labels = '{}'")

	w.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since, created_at)
		SELECT id, incarnation, preset_id, $1, name, 'idle', now(), now(), now() FROM workspaces`, id)
	refused("has 1 runners still")
	w.exec("UPDATE forge_runners SET status = 'gone'")

	require.NoError(t, w.service.Delete(ctx, w.who, "shop"))
	_, err := w.service.Directory.ByName(ctx, "shop")
	require.ErrorIs(t, err, entities.ErrNoEntity)
	_, err = w.service.Directory.ByID(ctx, id)
	require.ErrorIs(t, err, entities.ErrNoEntity)
	require.ErrorIs(t, w.service.Delete(ctx, w.who, "shop"), auth.ErrNotFound)
	found, err := w.service.DeleteCredential(ctx, w.who, "acme")
	require.NoError(t, err)
	require.True(t, found)
}
