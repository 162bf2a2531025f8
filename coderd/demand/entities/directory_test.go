package entities_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/seal"
)

// A replica that changed nothing itself sees a change when what it has is a second old; its client stays the same one until
// the credential is another.
func TestDirectory_change(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	other := w.replica(w.keys)
	before := w.client(other, "shop")
	require.Equal(t, token, before.(*client).Token)

	_, err := w.service.Stop(ctx, w.who, "shop", "maintenance", false)
	require.NoError(t, err)
	require.True(t, w.entity(w.service, "shop").Stopped, "who changed it sees it at once")
	w.clock.Advance(time.Second - time.Millisecond)
	require.False(t, w.entity(other, "shop").Stopped, "what was read is good for a second")
	w.clock.Advance(time.Millisecond)
	require.True(t, w.entity(other, "shop").Stopped)
	require.Same(t, before, w.client(other, "shop"), "the credential is the same")
	w.rotate(second, time.Hour)
	w.clock.Advance(time.Second)
	require.Equal(t, []string{second, first}, w.entity(other, "shop").Secrets)
	require.Same(t, before, w.client(other, "shop"))

	w.put("acme", entities.Credential{Token: "another-token"})
	require.Same(t, before, w.client(other, "shop"))
	w.clock.Advance(time.Second)
	after := w.client(other, "shop")
	require.NotSame(t, before, after)
	require.Equal(t, "another-token", after.(*client).Token)

	w.put("spare", entities.Credential{Kind: "github", Token: token, URL: "https://ghe.example/api/v3/"})
	_, err = w.service.Put(ctx, w.who, "shop", entities.Change{Credential: "spare"})
	require.NoError(t, err)
	w.clock.Advance(time.Second)
	require.Equal(t, "https://ghe.example/api/v3", w.client(other, "shop").(*client).URL, "another credential, another client")
	require.Len(t, w.kind.connections, 3)
}

// What a replica cannot open is an error of that entity, which names the key and the file; everything else goes on, and it is
// mended with the file.
func TestDirectory_keys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	writeKeys(t, w.keys, "new", "old")
	w.clock.Advance(time.Second)
	_, err := w.service.Reseal(ctx, w.who)
	require.Error(t, err, "the key that the first secrets are sealed with is lost")
	require.ErrorContains(t, err, "nothing was resealed")

	// Two entities, each sealed with another key.
	writeKeys(t, w.keys, "old")
	w.clock.Advance(time.Second)
	w.put("old", entities.Credential{Kind: "gitea", Token: token, URL: "https://gitea.example"})
	_, err = w.service.Put(ctx, w.who, "old", entities.Change{Scope: "organization", Path: "o", Credential: "old", WebhookSecret: first})
	require.NoError(t, err)
	writeKeys(t, w.keys, "new", "old")
	w.clock.Advance(time.Second)
	w.put("new", entities.Credential{Kind: "gitea", Token: token, URL: "https://gitea.example"})
	_, err = w.service.Put(ctx, w.who, "new", entities.Change{Scope: "organization", Path: "n", Credential: "new", WebhookSecret: second})
	require.NoError(t, err)

	path := keyFile(t, "old")
	replica := w.replica(path)
	check := func(name, key, path string) {
		t.Helper()
		e := w.entity(replica, name)
		require.Empty(t, e.Secrets)
		_, err := replica.Directory.Forge(ctx, e.ID)
		for _, err := range []error{e.Err, err} {
			var lacking *seal.NoKey
			require.ErrorAs(t, err, &lacking)
			require.Equal(t, seal.NoKey{KeyID: key, Path: path}, *lacking)
			require.ErrorContains(t, err, name+`: encryption key "`+key+`" is not in `+path)
		}
	}
	check("new", "new", path)
	require.Equal(t, []string{first}, w.entity(replica, "old").Secrets, "the others go on")
	require.Equal(t, token, w.client(replica, "old").(*client).Token)
	w.entity(replica, "shop")
	_, err = replica.Rotate(ctx, w.who, "new", entities.Change{WebhookSecret: third})
	require.ErrorIs(t, err, auth.ErrConflict)
	require.ErrorContains(t, err, "cannot be opened")
	require.Equal(t, []string{second}, w.entity(w.service, "new").Secrets, "as it was")

	writeKeys(t, path, "old", "new")
	w.clock.Advance(time.Second)
	require.Equal(t, []string{second}, w.entity(replica, "new").Secrets)
	require.Equal(t, token, w.client(replica, "new").(*client).Token)

	missing := filepath.Join(t.TempDir(), "keys")
	replica = w.replica(missing)
	check("old", "old", missing)
	require.NoFileExists(t, missing, "opening makes none")
	broken := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(broken, []byte("old:c2VjcmV0\n"), 0o600))
	e := w.entity(w.replica(broken), "old")
	require.ErrorContains(t, e.Err, broken+":1: key old is not 32 bytes in base64")
	require.NotContains(t, e.Err.Error(), "c2VjcmV0")
}
