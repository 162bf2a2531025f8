package auth_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// owner is the identity of the owner that the first start makes.
func owner(t *testing.T, store *database.Store) auth.Identity {
	t.Helper()
	path, created, err := auth.EnsureOwner(context.Background(), store, t.TempDir())
	require.NoError(t, err)
	require.True(t, created)
	return identity(t, store, read(t, path))
}

func identity(t *testing.T, store *database.Store, secret auth.Secret) auth.Identity {
	t.Helper()
	p, err := auth.NewAuthenticator(store, quartz.NewReal()).Authenticate(context.Background(), secret)
	require.NoError(t, err)
	who, ok := p.In("default")
	require.True(t, ok)
	return who
}

func read(t *testing.T, path string) auth.Secret {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return auth.Secret(strings.TrimSpace(string(b)))
}

func TestSecret(t *testing.T) {
	t.Parallel()
	s := auth.NewSecret()
	require.Regexp(t, `^pw_[A-Za-z0-9_-]{43}$`, s.Reveal())
	require.NotEqual(t, s, auth.NewSecret())
	require.Len(t, s.Hint(), 7)
	for _, printed := range []string{fmt.Sprint(s), fmt.Sprintf("%v %s %+v %#v", s, s, s, s), fmt.Sprintf("%#v", struct{ S auth.Secret }{s})} {
		require.NotContains(t, printed, s.Reveal()[8:])
	}
}

// TestRevocationHoldsEverywhere: two replicas that have both just seen a token refuse it within a second of its
// revocation, and not because they ask the database each time.
func TestRevocationHoldsEverywhere(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	who := owner(t, store)
	clock := quartz.NewMock(t)
	a, b := auth.NewAuthenticator(store, clock), auth.NewAuthenticator(store, clock)
	row, secret, err := auth.CreateToken(ctx, store, who, auth.TokenRequest{Name: "ci", User: "robot"})
	require.NoError(t, err)
	valid := func(x *auth.Authenticator) bool {
		_, err := x.Authenticate(ctx, secret)
		if err != nil {
			require.ErrorIs(t, err, auth.ErrUnauthenticated)
		}
		return err == nil
	}
	require.True(t, valid(a))
	clock.Advance(300 * time.Millisecond)
	require.True(t, valid(b))

	require.NoError(t, auth.RevokeToken(ctx, store, who, row.ID.String()))
	require.True(t, valid(a), "the answer is remembered for half a second")
	require.True(t, valid(b))
	clock.Advance(200 * time.Millisecond)
	require.False(t, valid(a))
	require.True(t, valid(b))
	clock.Advance(300 * time.Millisecond)
	require.False(t, valid(b), "half a second later on all replicas")

	// What is unknown is remembered no longer than what is known.
	_, err = store.Pool.Exec(ctx, "UPDATE tokens SET revoked_at = NULL WHERE id = $1", row.ID)
	require.NoError(t, err)
	require.False(t, valid(b))
	clock.Advance(500 * time.Millisecond)
	require.True(t, valid(b))
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	who := owner(t, store)
	require.Equal(t, database.RoleOwner, who.Role)
	require.Equal(t, "owner", who.User)

	_, expiring, err := auth.CreateToken(ctx, store, who, auth.TokenRequest{Name: "short", ExpiresIn: time.Hour})
	require.NoError(t, err)
	require.NotNil(t, identity(t, store, expiring).ExpiresAt)

	for name, change := range map[string]string{
		"expired":  "UPDATE tokens SET expires_at = now() - interval '1 second'",
		"revoked":  "UPDATE tokens SET expires_at = NULL, revoked_at = now()",
		"disabled": "UPDATE tokens SET revoked_at = NULL; UPDATE users SET disabled_at = now()",
		"demoted":  "UPDATE users SET disabled_at = NULL; DELETE FROM memberships",
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, pgx.BeginFunc(ctx, store.Pool, func(tx pgx.Tx) error {
				_, err := tx.Conn().PgConn().Exec(ctx, change).ReadAll()
				return err
			}))
			_, err = auth.NewAuthenticator(store, quartz.NewReal()).Authenticate(ctx, expiring)
			require.ErrorIs(t, err, auth.ErrUnauthenticated)
		})
	}
	for _, nonsense := range []auth.Secret{"", "pw_", "x", auth.NewSecret(), auth.Secret("pw_" + strings.Repeat("\x00", 43))} {
		_, err = auth.NewAuthenticator(store, quartz.NewReal()).Authenticate(ctx, nonsense)
		require.ErrorIs(t, err, auth.ErrUnauthenticated)
	}
}

// The last use of a token is recorded, at most once a minute.
func TestLastUse(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := dbtest.Open(t)
	row, secret, err := auth.CreateToken(ctx, store, owner(t, store), auth.TokenRequest{Name: "ci", User: "robot"})
	require.NoError(t, err)
	lastUse := func() (at *time.Time) {
		t.Helper()
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT last_used_at FROM tokens WHERE id = $1", row.ID).Scan(&at))
		return at
	}
	require.Nil(t, lastUse())
	first := time.Now().Truncate(time.Second)
	for _, use := range []struct{ after, recorded time.Duration }{
		{0, 0},
		{30 * time.Second, 0},
		{time.Minute, 0},
		{61 * time.Second, 61 * time.Second},
		{62 * time.Second, 61 * time.Second},
	} {
		dbtest.SetNow(t, store, first.Add(use.after))
		identity(t, store, secret) // of a replica that remembers no answer
		got := lastUse()
		require.NotNil(t, got)
		require.WithinDuration(t, first.Add(use.recorded), *got, 0, "used after %s", use.after)
	}
}

// TestFlood: wrong tokens cannot fill the memory, nor push out who is known.
func TestFlood(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	path, _, err := auth.EnsureOwner(ctx, store, t.TempDir())
	require.NoError(t, err)
	a := auth.NewAuthenticator(store, quartz.NewMock(t))
	_, err = a.Authenticate(ctx, read(t, path))
	require.NoError(t, err)
	var before int64
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM tokens").Scan(&before))
	for range 2_500 {
		_, err := a.Authenticate(ctx, auth.NewSecret())
		require.ErrorIs(t, err, auth.ErrUnauthenticated)
	}
	known, unknown := auth.CacheSizes(a)
	require.Equal(t, 1, known)
	require.LessOrEqual(t, unknown, 1_000)
	store.Close() // who is known is answered without the database
	_, err = a.Authenticate(ctx, read(t, path))
	require.NoError(t, err)
}

func TestCreateToken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	boss := owner(t, store)
	_, secret, err := auth.CreateToken(ctx, store, boss, auth.TokenRequest{Name: "ann", User: "ann@example.com"})
	require.NoError(t, err)
	ann := identity(t, store, secret)
	require.Equal(t, database.RoleMember, ann.Role)

	const tenYears = 87_600 * time.Hour
	for name, test := range map[string]struct {
		who  auth.Identity
		req  auth.TokenRequest
		kind error
	}{
		"a member for another": {ann, auth.TokenRequest{Name: "x", User: "bob"}, auth.ErrForbidden},
		"a member for itself with another role": {
			ann,
			auth.TokenRequest{Name: "x", Role: database.RoleOwner},
			auth.ErrConflict,
		},
		"another role for who exists": {boss, auth.TokenRequest{
			Name: "x", User: "ann@example.com",
			Role: database.RoleAuditor,
		}, auth.ErrConflict},
		"the built-in identity": {boss, auth.TokenRequest{Name: "x", User: "prewarm"}, auth.ErrForbidden},
		"a system role":         {boss, auth.TokenRequest{Name: "x", User: "eve", Role: database.RoleSystem}, auth.ErrInvalid},
		"no role":               {boss, auth.TokenRequest{Name: "x", User: "eve", Role: "king"}, auth.ErrInvalid},
		"a bad name":            {boss, auth.TokenRequest{Name: "x", User: "Eve/.."}, auth.ErrInvalid},
		"a hundred years":       {boss, auth.TokenRequest{Name: "x", ExpiresIn: 876_000 * time.Hour}, auth.ErrInvalid},
		"ten years and an hour": {boss, auth.TokenRequest{Name: "x", ExpiresIn: tenYears + time.Hour}, auth.ErrInvalid},
	} {
		var before, after int
		count := "SELECT (SELECT count(*) FROM tokens) + (SELECT count(*) FROM users) + (SELECT count(*) FROM audit_log)"
		require.NoError(t, store.Pool.QueryRow(ctx, count).Scan(&before))
		_, _, err := auth.CreateToken(ctx, store, test.who, test.req)
		require.ErrorIs(t, err, test.kind, name)
		require.NoError(t, store.Pool.QueryRow(ctx, count).Scan(&after))
		require.Equal(t, before, after, name)
	}

	longest, _, err := auth.CreateToken(ctx, store, boss, auth.TokenRequest{Name: "long", ExpiresIn: tenYears})
	require.NoError(t, err)
	require.Equal(t, tenYears, longest.ExpiresAt.Sub(longest.CreatedAt))

	row, secret, err := auth.CreateToken(ctx, store, ann, auth.TokenRequest{Name: "short", ExpiresIn: time.Hour})
	require.NoError(t, err)
	child, _, err := auth.CreateToken(ctx, store, identity(t, store, secret), auth.TokenRequest{Name: "child"})
	require.NoError(t, err)
	require.Equal(t, row.ExpiresAt, child.ExpiresAt, "a token does not outlive the one it was made with")

	// Many who make the same new user at once make one.
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, _, errs[i] = auth.CreateToken(ctx, store, boss, auth.TokenRequest{Name: "x", User: "carl"}) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestRevokeToken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	boss := owner(t, store)
	tokenOf := func(user, name string) (viewsdb.TokensRow, auth.Identity) {
		row, secret, err := auth.CreateToken(ctx, store, boss, auth.TokenRequest{Name: name, User: user})
		require.NoError(t, err)
		return row, identity(t, store, secret)
	}
	_, ann := tokenOf("ann", "laptop")
	bobs, _ := tokenOf("bob", "laptop")
	tokenOf("bob", "ci")

	require.ErrorIs(t, auth.RevokeToken(ctx, store, ann, bobs.ID.String()), auth.ErrNotFound)
	require.ErrorIs(t, auth.RevokeToken(ctx, store, ann, "ci"), auth.ErrNotFound)
	require.ErrorIs(t, auth.RevokeToken(ctx, store, boss, "laptop"), auth.ErrConflict)
	require.NoError(t, auth.RevokeToken(ctx, store, ann, "laptop"), "one's own, though another has that name")
	require.NoError(t, auth.RevokeToken(ctx, store, ann, "laptop"), "it is revoked already")
	require.NoError(t, auth.RevokeToken(ctx, store, boss, "laptop"), "only one is left")
	require.NoError(t, auth.RevokeToken(ctx, store, boss, "ci"))

	var revocations int
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM audit_log WHERE action = 'token.revoke'").Scan(&revocations))
	require.Equal(t, 3, revocations)
}

func TestEnsureOwner(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ensure := func(t *testing.T, store *database.Store, dir string) (auth.Secret, bool) {
		t.Helper()
		path, created, err := auth.EnsureOwner(ctx, store, dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, "owner-token"), path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		require.NoFileExists(t, path+".new")
		return read(t, path), created
	}
	tokens := func(t *testing.T, store *database.Store) (n int) {
		t.Helper()
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM tokens").Scan(&n))
		return n
	}

	t.Run("starts again", func(t *testing.T) {
		t.Parallel()
		store, dir := dbtest.Open(t), t.TempDir()
		first, created := ensure(t, store, dir)
		require.True(t, created)
		require.Equal(t, database.RoleOwner, identity(t, store, first).Role)
		again, created := ensure(t, store, dir)
		require.False(t, created)
		require.Equal(t, first, again)
		require.Equal(t, 1, tokens(t, store))
	})

	t.Run("killed before the commit", func(t *testing.T) {
		t.Parallel()
		store, dir := dbtest.Open(t), t.TempDir()
		left := filepath.Join(dir, "owner-token.new")
		require.NoError(t, os.WriteFile(left, []byte(auth.NewSecret().Reveal()), 0o644))
		secret, created := ensure(t, store, dir)
		require.True(t, created)
		identity(t, store, secret)
	})

	t.Run("killed after the commit", func(t *testing.T) {
		t.Parallel()
		store, dir := dbtest.Open(t), t.TempDir()
		secret, _ := ensure(t, store, dir)
		require.NoError(t, os.Rename(filepath.Join(dir, "owner-token"), filepath.Join(dir, "owner-token.new")))
		healed, created := ensure(t, store, dir)
		require.False(t, created)
		require.Equal(t, secret, healed)
		require.Equal(t, 1, tokens(t, store))
	})

	t.Run("a file of another database", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		old, _ := ensure(t, dbtest.Open(t), dir)
		store := dbtest.Open(t)
		secret, created := ensure(t, store, dir)
		require.True(t, created)
		require.NotEqual(t, old, secret)
		identity(t, store, secret)
	})

	t.Run("revoked on purpose", func(t *testing.T) {
		t.Parallel()
		store, dir := dbtest.Open(t), t.TempDir()
		secret, _ := ensure(t, store, dir)
		require.NoError(t, auth.RevokeToken(ctx, store, identity(t, store, secret), "owner-token"))
		again, created := ensure(t, store, dir)
		require.False(t, created)
		require.Equal(t, secret, again)
	})

	t.Run("disabled on purpose", func(t *testing.T) {
		t.Parallel()
		store := dbtest.Open(t)
		ensure(t, store, t.TempDir())
		_, err := store.Pool.Exec(ctx, "UPDATE users SET disabled_at = now() WHERE name = 'owner'")
		require.NoError(t, err)
		dir := t.TempDir()
		path, created, err := auth.EnsureOwner(ctx, store, dir)
		require.NoError(t, err)
		require.False(t, created)
		require.NoFileExists(t, path)
	})

	// Replicas that start at once: some with a directory of their own, some sharing one. Each file holds a valid token.
	t.Run("many at once", func(t *testing.T) {
		t.Parallel()
		store := dbtest.Open(t)
		shared := t.TempDir()
		dirs := []string{shared, t.TempDir(), shared, t.TempDir(), shared, shared}
		var wg sync.WaitGroup
		errs := make([]error, len(dirs))
		for i, dir := range dirs {
			wg.Go(func() { _, _, errs[i] = auth.EnsureOwner(ctx, store, dir) })
		}
		wg.Wait()
		for i, dir := range dirs {
			require.NoError(t, errs[i])
			identity(t, store, read(t, filepath.Join(dir, "owner-token")))
		}
		require.Equal(t, 3, tokens(t, store))
	})

	t.Run("a directory that cannot be written", func(t *testing.T) {
		t.Parallel()
		store := dbtest.Open(t)
		_, _, err := auth.EnsureOwner(ctx, store, filepath.Join(t.TempDir(), "missing"))
		require.ErrorContains(t, err, "create owner token")
		require.Zero(t, tokens(t, store))
	})
}

// TestRecordIsOfTheDeed: what is rolled back leaves no entry.
func TestRecordIsOfTheDeed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	entry := auth.Entry{
		ActorID: auth.BuiltinUserID, Action: "test.act", TargetType: "test", TargetID: "1",
		Before: map[string]int{"n": 1}, After: map[string]int{"n": 2}, Reason: "because", Source: "192.0.2.1",
	}
	err := store.InTx(ctx, database.TxOptions{Label: "test"}, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, auth.Record(ctx, tx, entry))
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, auth.Record(ctx, store, entry))
	rows, err := viewsdb.New(store).AuditLog(ctx, viewsdb.AuditLogParams{OrganizationID: uuid.New(), MaxEntries: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1, "once, and seen from every organization, as it belongs to none")
	require.Equal(t, "prewarm", rows[0].Actor)
	require.JSONEq(t, `{"n":1}`, string(rows[0].Before))
	require.JSONEq(t, `{"n":2}`, string(rows[0].After))
}
