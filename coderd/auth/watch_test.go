package auth_test

import (
	"context"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// TestWatch: what ends, and how soon, when the token, its user, its role or its session is not what it was; what others have
// begun goes on.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		want   error
	}{
		"nothing":   {"SELECT 1", nil},
		"revoked":   {"UPDATE tokens SET revoked_at = now() WHERE name = 'laptop'", auth.ErrRevoked},
		"expired":   {"UPDATE tokens SET expires_at = now() - interval '1 second' WHERE name = 'laptop'", auth.ErrRevoked},
		"disabled":  {"UPDATE users SET disabled_at = now() WHERE name = 'ann'", auth.ErrRevoked},
		"role":      {"UPDATE memberships m SET role = 'auditor' FROM users u WHERE u.id = m.user_id AND u.name = 'ann'", auth.ErrRole},
		"no member": {"DELETE FROM memberships m USING users u WHERE u.id = m.user_id AND u.name = 'ann'", auth.ErrRevoked},
		"member elsewhere": {`WITH o AS (INSERT INTO organizations (id, name, created_at) VALUES (gen_random_uuid(), 'x', now()) RETURNING id)
			UPDATE memberships m SET organization_id = o.id FROM o, users u WHERE u.id = m.user_id AND u.name = 'ann'`, auth.ErrRole},
		"session expired": {"UPDATE sessions SET expires_at = now() - interval '1 second'", auth.ErrRevoked},
		"signed out":      {"DELETE FROM sessions", auth.ErrRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			store, clock := dbtest.Open(t), quartz.NewMock(t)
			boss := owner(t, store)
			_, token, err := auth.CreateToken(ctx, store, boss, auth.TokenRequest{Name: "laptop", User: "ann"})
			require.NoError(t, err)
			ann := identity(t, store, token)
			session, _, err := auth.SignIn(ctx, store, ann, time.Hour)
			require.NoError(t, err)
			principal, err := auth.NewAuthenticator(store, clock).Session(ctx, session)
			require.NoError(t, err)
			browser, _ := principal.In("default")

			watch := auth.NewWatch(store, clock)
			his, stop := watch.While(ctx, boss)
			defer stop()
			hers, stop := watch.While(ctx, ann)
			defer stop()
			page, stop := watch.While(ctx, browser)
			defer stop()
			clock.Advance(500 * time.Millisecond).MustWait(ctx)
			require.NoError(t, page.Err())
			_, err = store.Pool.Exec(ctx, test.change)
			require.NoError(t, err)
			clock.Advance(500 * time.Millisecond).MustWait(ctx)
			require.NoError(t, his.Err())
			require.Equal(t, test.want, context.Cause(page))
			if test.want != nil {
				require.ErrorIs(t, context.Cause(page), auth.ErrNotAllowed)
			}
			if name == "session expired" || name == "signed out" {
				test.want = nil // the token goes on without its session
			}
			require.Equal(t, test.want, context.Cause(hers))
		})
	}
}

// TestWatch_withoutDatabase: what goes on is ended after ten seconds in which the database could not confirm it, and not
// before; once nothing goes on, nobody looks.
func TestWatch_withoutDatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, clock := dbtest.Open(t), quartz.NewMock(t)
	watch := auth.NewWatch(store, clock)
	going, stop := watch.While(ctx, owner(t, store))
	hide := func(from, to string) {
		_, err := store.Pool.Exec(ctx, "ALTER TABLE "+from+" RENAME TO "+to)
		require.NoError(t, err)
	}
	second := func() {
		for range 2 {
			clock.Advance(500 * time.Millisecond).MustWait(ctx)
		}
	}
	hide("sessions", "away")
	for range 9 {
		second()
	}
	hide("away", "sessions")
	second()
	hide("sessions", "away")
	for range 9 {
		second()
		require.NoError(t, context.Cause(going))
	}
	second()
	require.Equal(t, auth.ErrUnconfirmed, context.Cause(going))
	stop()
	second()
	_, more := clock.Peek()
	require.False(t, more, "nobody looks")
}

// TestMadeWith: a token ends with the one that it was made with, however far, and none is made with one that has ended.
func TestMadeWith(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := dbtest.Open(t)
	boss := owner(t, store)
	create := func(with auth.Identity, name, user string) auth.Identity {
		_, secret, err := auth.CreateToken(ctx, store, with, auth.TokenRequest{Name: name, User: user, Role: ""})
		require.NoError(t, err)
		return identity(t, store, secret)
	}
	stolen := create(boss, "stolen", "owner")
	child := create(stolen, "child", "owner")
	create(child, "grandchild", "ann")
	create(boss, "other", "owner")
	require.NoError(t, auth.RevokeToken(ctx, store, boss, "stolen"))
	var live []string
	require.NoError(t, store.Pool.QueryRow(ctx,
		"SELECT array_agg(name ORDER BY name) FROM tokens WHERE revoked_at IS NULL").Scan(&live))
	require.Equal(t, []string{"other", "owner-token"}, live)
	var recorded int
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM audit_log WHERE action = 'token.revoke'").Scan(&recorded))
	require.Equal(t, 3, recorded)
	_, _, err := auth.CreateToken(ctx, store, child, auth.TokenRequest{Name: "late"})
	require.ErrorIs(t, err, auth.ErrUnauthenticated)
}

// TestSession_isNoToken: what a browser holds is good for a browser only, and a token is no session.
func TestSession_isNoToken(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := dbtest.Open(t)
	boss := owner(t, store)
	_, token, err := auth.CreateToken(ctx, store, boss, auth.TokenRequest{Name: "laptop"})
	require.NoError(t, err)
	session, _, err := auth.SignIn(ctx, store, identity(t, store, token), time.Hour)
	require.NoError(t, err)
	a := auth.NewAuthenticator(store, quartz.NewReal())
	_, err = a.Authenticate(ctx, session)
	require.ErrorIs(t, err, auth.ErrUnauthenticated)
	_, err = a.Session(ctx, token)
	require.ErrorIs(t, err, auth.ErrUnauthenticated)
	p, err := a.Session(ctx, session)
	require.NoError(t, err)
	require.Equal(t, "laptop", p.TokenName)
}
