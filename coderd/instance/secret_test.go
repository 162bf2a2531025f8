package instance_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

// keysFile is one with these encryption keys.
func keysFile(t *testing.T, ids ...string) *seal.Keys {
	t.Helper()
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id[:1], 32))) + "\n")
	}
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return seal.Open(path, false, quartz.NewReal())
}

// sealing is a replica with those encryption keys.
func (w *world) sealing(keys *seal.Keys) *instance.Service {
	return instance.New(instance.Options{
		Store: w.store, Writer: workspaces.New(w.store, uuid.New, "test"), Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), URL: "http://test", Hints: hints.Local(hints.Ears{}),
		Keys: keys, SealKeys: keys != nil,
	})
}

// token is one of a further attempt to create the world's first workspace.
func (w *world) token(s *instance.Service) string {
	w.t.Helper()
	made, err := w.request(s)
	require.NoError(w.t, err)
	return made
}

func (w *world) request(s *instance.Service) (string, error) {
	id := w.ids("true")[0]
	var attempt int32
	require.NoError(w.t, w.store.Pool.QueryRow(w.t.Context(), "SELECT attempt FROM agents WHERE workspace_id = $1", id).Scan(&attempt))
	made, err := s.Callback(w.t.Context(), database.Job{WorkspaceID: id, Incarnation: 1, Attempt: attempt + 1},
		json.RawMessage(`{"heartbeat_timeout_s": 60}`))
	return made.Token, err
}

func (w *world) good(s *instance.Service, token string) {
	w.t.Helper()
	_, err := s.Authenticate(w.t.Context(), token)
	require.NoError(w.t, err)
}

// rotate makes another signing key.
func (w *world) rotate(s *instance.Service) {
	w.t.Helper()
	_, _, err := s.Rotate(w.t.Context(), w.store, false)
	require.NoError(w.t, err)
	s.Forget()
}

// Who reads the database cannot speak for workspaces: what signs is sealed with a key that is not in it. Keys of the release
// before go on in plain until they are sealed too, and tokens stay good all along.
func TestSealedSigningKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0) // with a key in plain
	ctx := t.Context()
	before := w.token(w.service)
	a, b := w.sealing(keysFile(t, "one")), w.sealing(keysFile(t, "one"))
	w.good(a, before)
	n, err := a.InPlain(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	n, err = a.Reseal(ctx, w.store, "one")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = a.InPlain(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	b.Forget()
	w.good(b, before)
	n, err = b.Reseal(ctx, w.store, "one")
	require.NoError(t, err)
	require.Zero(t, n, "they are")

	w.rotate(a)
	token := w.token(a)
	b.Forget()
	w.good(b, token)
	rows, err := instancedb.New(w.store).SigningKeys(ctx)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.HS256})
	require.NoError(t, err)
	for _, row := range rows {
		require.NotNil(t, row.SealedBy)
		var claims map[string]any
		require.Error(t, parsed.Claims(row.Secret, &claims), "what is in the table signs nothing")
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: row.Secret},
			(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", row.ID.String()))
		require.NoError(t, err)
		require.NoError(t, parsed.UnsafeClaimsWithoutVerification(&claims))
		forged, err := jwt.Signed(signer).Claims(claims).Serialize()
		require.NoError(t, err)
		_, err = b.Authenticate(ctx, forged)
		require.ErrorContains(t, err, "its signature is of no key in use")
	}
}

// A token of a key that there is not is refused, also where it is signed with nothing.
func TestAuthenticate_unknownKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	good := w.token(w.service)
	w.good(w.service, good)
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT","kid":"` + uuid.NewString() + `"}`))
	for _, key := range [][]byte{nil, make([]byte, 32)} {
		signed := header + "." + strings.Split(good, ".")[1]
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		_, err := w.service.Authenticate(t.Context(), signed+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
		require.ErrorContains(t, err, "its signature is of no key in use")
	}
}

// Encryption keys are rotated without a token that ends; a replica that lacks one says which, and goes on with the others.
func TestSealedSigningKeys_otherFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 0)
	w.exec("DELETE FROM agents")
	w.exec("DELETE FROM signing_keys")
	ctx := t.Context()
	ids := w.ids("true")
	callback := func(s *instance.Service, id uuid.UUID) (string, error) {
		made, err := s.Callback(ctx, database.Job{WorkspaceID: id, Incarnation: 1, Attempt: 1}, json.RawMessage(`{"heartbeat_timeout_s": 60}`))
		return made.Token, err
	}
	old, both, next := w.sealing(keysFile(t, "old")), w.sealing(keysFile(t, "next", "old")), w.sealing(keysFile(t, "next"))
	first, err := callback(old, ids[0])
	require.NoError(t, err)
	w.good(both, first)
	var lacking *seal.NoKey
	_, err = next.Authenticate(ctx, first)
	require.ErrorAs(t, err, &lacking)
	require.Equal(t, "old", lacking.KeyID)
	_, err = callback(next, ids[1])
	require.ErrorAs(t, err, &lacking)
	_, err = next.Reseal(ctx, w.store, "next")
	require.ErrorAs(t, err, &lacking)

	w.rotate(both)
	next.Forget()
	second, err := callback(next, ids[1])
	require.NoError(t, err, "of the newest key it has what opens it")
	w.good(next, second)

	n, err := both.Reseal(ctx, w.store, "next")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	next.Forget()
	w.good(next, first)
	old.Forget()
	_, err = old.Authenticate(ctx, first)
	require.ErrorAs(t, err, &lacking)
	_, err = w.sealing(nil).Authenticate(ctx, first)
	require.ErrorContains(t, err, "this server has no encryption keys")
}
