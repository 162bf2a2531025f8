package entities_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// A new credential needs a secret: a token, or the private key of a GitHub App. What is refused is not stored.
func TestCredential_needsASecret(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	err := w.service.PutCredential(ctx, w.who, "app", entities.Credential{Kind: "github"})
	require.ErrorIs(t, err, auth.ErrInvalid)
	require.ErrorContains(t, err, "a token is missing")
	found, err := w.service.DeleteCredential(ctx, w.who, "app")
	require.NoError(t, err)
	require.False(t, found)

	private := privateKey(t)
	w.put("app", entities.Credential{Kind: "github", AppID: 1, InstallationID: 2, PrivateKey: string(private)})
	_, err = w.service.Put(ctx, w.who, "shop", entities.Change{Credential: "app"})
	require.NoError(t, err)
	is := w.client(w.service, "shop").(*client)
	require.Equal(t, &forge.App{ID: 1, InstallationID: 2, PrivateKey: private}, is.App)
	require.Empty(t, is.Token)
}

// privateKey is one of a GitHub App, as PEM.
func privateKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// A token is replaced only by a whole GitHub App, so that no token is taken for a private key. An App can be given another
// installation without its key.
func TestCredential_fromTokenToApp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	private := privateKey(t)
	of := func() forge.Connection {
		t.Helper()
		return w.client(w.service, "shop").(*client).Connection
	}
	for _, c := range []struct {
		credential entities.Credential
		says       string
	}{
		{entities.Credential{AppID: 1, InstallationID: 2}, "needs app_id, installation_id and private_key"},
		{entities.Credential{AppID: 1, PrivateKey: string(private)}, "needs app_id, installation_id and private_key"},
		{entities.Credential{InstallationID: 2, PrivateKey: string(private)}, "needs app_id, installation_id and private_key"},
		{entities.Credential{Token: "another", AppID: 1}, "not both"},
		{entities.Credential{Token: "another", InstallationID: 2}, "not both"},
		{entities.Credential{Token: "another", PrivateKey: string(private)}, "not both"},
	} {
		err := w.service.PutCredential(ctx, w.who, "acme", c.credential)
		require.ErrorIs(t, err, auth.ErrInvalid)
		require.ErrorContains(t, err, c.says)
	}
	require.Equal(t, token, of().Token)
	require.Nil(t, of().App)

	w.put("acme", entities.Credential{AppID: 1, InstallationID: 2, PrivateKey: string(private)})
	require.Equal(t, &forge.App{ID: 1, InstallationID: 2, PrivateKey: private}, of().App)
	w.put("acme", entities.Credential{InstallationID: 3})
	require.Equal(t, &forge.App{ID: 1, InstallationID: 3, PrivateKey: private}, of().App)
	require.Empty(t, of().Token)
	w.put("acme", entities.Credential{Token: "another"})
	require.Equal(t, "another", of().Token)
	require.Nil(t, of().App)
}

// A credential keeps its kind, since its entities are of that kind. To give the same kind again changes nothing.
func TestCredential_keepsItsKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("acme", entities.Credential{Kind: "github", Token: "another"})
	err := w.service.PutCredential(context.Background(), w.who, "acme", entities.Credential{Kind: "gitea", Token: token})
	require.ErrorIs(t, err, auth.ErrConflict)
	require.ErrorContains(t, err, "credential acme is of kind github, which cannot change")
	require.Equal(t, "another", w.client(w.service, "shop").(*client).Token)
}

// The audit log says which changes gave a credential a secret. It has no secret in it.
func TestCredential_auditLog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t) // creates acme with a token
	w.put("acme", entities.Credential{URL: "https://api.github.com"})
	w.put("acme", entities.Credential{Token: "another-token"})
	rows, err := w.store.Pool.Query(ctx, `SELECT action || ': ' || coalesce(after ->> 'secret', 'no secret') FROM audit_log
		WHERE target_type = 'forge-credential' AND target_name = 'acme' ORDER BY id`)
	require.NoError(t, err)
	changes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{
		"forge-credential.create: changed", "forge-credential.update: no secret", "forge-credential.update: changed",
	}, changes)
	var told int
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT count(*) FROM audit_log l WHERE l::text LIKE '%' || $1 || '%' "+
		"OR l::text LIKE '%another-token%'", token).Scan(&told))
	require.Zero(t, told)
}

// A bundle may hold several authorities, each of which has to be one; what is refused changes nothing, and an empty one takes
// them away.
func TestBundle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	one, two := authority(t), authority(t)
	bundle := one + "\n" + two + "\n\n"
	w.put("acme", entities.Credential{CABundle: &bundle})
	trusted := func() string {
		t.Helper()
		w.clock.Advance(time.Second)
		return string(w.client(w.service, "shop").(*client).CABundle)
	}
	require.Equal(t, bundle, trusted())
	broken := strings.Replace(two, "MII", "AAA", 1)
	for bad, says := range map[string]string{
		one + broken:           "certificate 2 cannot be read",
		one + two[:len(two)/2]: "after certificate 1 there is something that is not PEM",
		one + two + "-----":    "after certificate 2 there is something that is not PEM",
		one + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "block 2 is a PRIVATE KEY",
		"nonsense": "after certificate 0",
	} {
		err := w.service.PutCredential(ctx, w.who, "acme", entities.Credential{CABundle: &bad})
		require.ErrorIs(t, err, auth.ErrInvalid)
		require.ErrorContains(t, err, says)
	}
	require.Equal(t, bundle, trusted())
	none := ""
	w.put("acme", entities.Credential{CABundle: &none})
	require.Empty(t, trusted())
}

// Whoever may change a credential's URL, and does not know its secret, cannot have it sent somewhere else.
func TestURL_wantsTheSecret(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	url := func() string {
		t.Helper()
		w.clock.Advance(time.Second)
		return w.client(w.service, "shop").(*client).URL
	}
	err := w.service.PutCredential(ctx, w.who, "acme", entities.Credential{URL: "https://evil.example"})
	require.ErrorIs(t, err, auth.ErrInvalid)
	require.ErrorContains(t, err, "give the token or private key again")
	require.Equal(t, "https://api.github.com", url())
	w.put("acme", entities.Credential{URL: "https://api.github.com/"}) // is the same
	require.Equal(t, "https://api.github.com", url())
	w.put("acme", entities.Credential{URL: "https://ghe.example/api/v3", Token: token})
	require.Equal(t, "https://ghe.example/api/v3", url())
	for _, bad := range []string{
		"http://ghe.example", "ftp://ghe.example", "https://", "ghe.example", "https://u:p@ghe.example", "https://ghe.example?x=1",
	} {
		err := w.service.PutCredential(ctx, w.who, "acme", entities.Credential{URL: bad, Token: token})
		require.ErrorIs(t, err, auth.ErrInvalid, bad)
		require.NotContains(t, err.Error(), token)
	}
	require.Equal(t, "https://ghe.example/api/v3", url())
}
